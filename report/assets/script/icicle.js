// The icicle: a canvas that draws only what is at least a pixel wide, with
// the keyboard and a spoken description beside it. Why it is not a library
// is said in `html/mod.rs`.

const ROW_HEIGHT = 20;
const LEAST_WIDTH = 1; // css pixels; narrower siblings share one grey block
const TEXT_WIDTH = 26; // narrower frames carry no text

class Icicle {
  /** `on.point(node)` when a frame is pointed at, `on.zoom(node)` after a zoom. */
  constructor(host, data, search, on) {
    this.host = host;
    this.data = data;
    this.search = search;
    this.on = on;
    this.canvas = element("canvas", { "aria-hidden": "true" });
    this.spacer = element("div", { class: "icicle-spacer" }, this.canvas);
    // Two spoken items, used in turn: a changed id is announced by every
    // screen reader, a changed label is not.
    this.spoken = ["icicle-item-a", "icicle-item-b"].map((id) => element("div", { id, role: "treeitem", class: "visually-hidden" }));
    host.replaceChildren(this.spacer, ...this.spoken);
    this.pixels = this.canvas.getContext("2d");
    this.hovered = null;
    this.focused = null;
    this.rows = [];
    this.frameRequest = 0;

    host.addEventListener("scroll", () => {
      host.classList.toggle("scrolled", host.scrollTop > 0);
      this.requestDraw();
    });
    host.addEventListener("mousemove", (event) => this.hover(this.nodeAt(event)));
    host.addEventListener("mouseleave", () => this.hover(null));
    host.addEventListener("click", (event) => {
      const node = this.nodeAt(event);
      if (node !== null) this.zoom(node);
    });
    host.addEventListener("keydown", (event) => this.key(event));
    host.addEventListener("focus", () => this.focus(this.focused ?? this.zoomed));
    host.addEventListener("blur", () => this.requestDraw());
    new ResizeObserver(() => this.layout()).observe(host);
    onColourScheme(() => this.readColours());
  }

  setTree(tree, zoomed = 0) {
    this.tree = tree;
    this.zoomed = zoomed;
    this.hovered = null;
    this.focused = null;
    this.layout();
    this.skipTrunk();
    this.announce();
  }

  /**
   * Scrolls past the rows that nearly everything has in common (the entry,
   * an interpreter's start) when not all rows can be seen.
   */
  skipTrunk() {
    const fork = this.rows.findIndex((row) => Math.max(...row.map(({ width }) => width)) < 0.8 * this.host.clientWidth);
    this.host.scrollTop = Math.max(0, fork - 3) * ROW_HEIGHT;
  }

  /** After the tree's measure changed. */
  refresh() {
    if (this.tree.value(this.zoomed) === 0) this.zoomed = 0;
    this.focused = null;
    this.layout();
  }

  zoom(node) {
    this.zoomed = node;
    this.focused = node;
    this.hovered = null;
    this.layout();
    this.reveal(node);
    this.announce();
    this.on.zoom(node);
  }

  // Rows of blocks from the root down. A block is
  // { node, left, width, row }; `node` is null for siblings too narrow.
  layout() {
    if (!this.tree) return;
    const width = this.host.clientWidth;
    this.rows = [];
    this.drawnFrames = 0;
    if (width === 0) return;
    const above = pathTo(this.tree, this.zoomed);
    above.forEach((node) => this.rows.push([{ node, left: 0, width }]));
    this.drawnFrames = above.length;
    const scale = width / Math.max(this.tree.value(this.zoomed), 1);
    let row = this.rows.at(-1);
    while (row.length > 0) {
      const next = [];
      for (const block of row) {
        if (block.node === null) continue;
        let { left } = block;
        let rest = 0;
        for (const child of this.tree.children(block.node)) {
          const childWidth = this.tree.value(child) * scale;
          if (childWidth < LEAST_WIDTH) rest += childWidth;
          else {
            next.push({ node: child, left, width: childWidth });
            left += childWidth;
            this.drawnFrames += 1;
          }
        }
        if (rest >= 0.5) next.push({ node: null, left, width: rest });
      }
      if (next.length > 0) this.rows.push(next);
      row = next;
    }
    this.spacer.style.height = `${this.rows.length * ROW_HEIGHT}px`;
    this.host.dataset.frames = String(this.drawnFrames);
    this.host.dataset.rootValue = String(this.tree.value(0));
    this.host.dataset.zoomedValue = String(this.tree.value(this.zoomed));
    this.draw();
  }

  readColours() {
    this.colours = {
      text: cssValue("--frame-text"),
      rest: cssValue("--frame-rest"),
      plain: cssValue("--frame-plain"),
      synthetic: cssValue("--frame-synthetic"),
      match: cssValue("--match"),
      matchText: cssValue("--match-text"),
      outline: cssValue("--frame-outline"),
      page: cssValue("--surface"),
      modules: this.data.modules.map((_, index) => cssValue(moduleColour(this.data, index))),
      font: cssValue("--frame-font"),
    };
    this.requestDraw();
  }

  requestDraw() {
    if (this.frameRequest === 0) this.frameRequest = requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frameRequest = 0;
    if (!this.tree || this.rows.length === 0) return;
    const width = this.host.clientWidth;
    const height = Math.min(this.host.clientHeight, this.rows.length * ROW_HEIGHT) || ROW_HEIGHT;
    const ratio = devicePixelRatio || 1;
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      this.canvas.width = wide;
      this.canvas.height = high;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    const { pixels } = this;
    pixels.setTransform(ratio, 0, 0, ratio, 0, 0);
    pixels.clearRect(0, 0, width, height);
    pixels.font = this.colours.font;
    pixels.textBaseline = "middle";
    this.letter = pixels.measureText("m").width || 7;
    const top = this.host.scrollTop;
    const first = Math.max(0, Math.floor(top / ROW_HEIGHT));
    const last = Math.min(this.rows.length, Math.ceil((top + height) / ROW_HEIGHT));
    const zoomedRow = this.rowOf(this.zoomed);
    for (let row = first; row < last; row += 1) {
      for (const block of this.rows[row]) this.drawBlock(block, row * ROW_HEIGHT - top, row < zoomedRow);
    }
  }

  drawBlock({ node, left, width }, top, above) {
    const { pixels, colours, tree } = this;
    const gap = width > 3 ? 1 : 0;
    if (node === null) {
      pixels.fillStyle = colours.rest;
      pixels.fillRect(left, top, width, ROW_HEIGHT - 1);
      return;
    }
    const frame = tree.frame(node);
    const matches = node !== 0 && this.search.matchesFrame(frame);
    pixels.globalAlpha = (this.search.active && !matches ? 0.4 : 1) * (above ? 0.55 : 1);
    pixels.fillStyle = matches ? colours.match : this.colourOf(frame);
    pixels.fillRect(left, top, width - gap, ROW_HEIGHT - 1);
    if (width > TEXT_WIDTH) {
      const room = Math.floor((width - 9) / this.letter);
      let text = this.data.frames.name(frame);
      if (text.length > room) text = this.data.frames.shortName(frame);
      if (text.length > room) text = room > 2 ? `${text.slice(0, room - 1)}…` : "";
      pixels.fillStyle = matches ? colours.matchText : colours.text;
      pixels.globalAlpha = Math.max(pixels.globalAlpha, 0.7);
      // The last argument narrows letters that are wider than those of Latin.
      pixels.fillText(text, left + 4, top + ROW_HEIGHT / 2, width - 8);
    }
    pixels.globalAlpha = 1;
    const hasFocus = node === this.focused && document.activeElement === this.host;
    if (node === this.hovered || hasFocus) {
      pixels.strokeStyle = colours.outline;
      pixels.lineWidth = hasFocus ? 2 : 1;
      pixels.strokeRect(left + 1, top + 1, Math.max(width - gap - 2, 1), ROW_HEIGHT - 3);
    }
  }

  colourOf(frame) {
    if (this.data.frames.has(frame, FRAME_SYNTHETIC)) return this.colours.synthetic;
    const module = this.data.frames.moduleIndex(frame);
    return module < 0 ? this.colours.plain : this.colours.modules[module];
  }

  // Where a node is, and what is at a place.

  rowOf(node) {
    let row = -1;
    for (let at = node; at >= 0; at = this.tree.parent(at)) row += 1;
    return row;
  }

  nodeAt(event) {
    const box = this.host.getBoundingClientRect();
    const row = this.rows[Math.floor((event.clientY - box.top - this.host.clientTop + this.host.scrollTop) / ROW_HEIGHT)];
    const x = event.clientX - box.left - this.host.clientLeft;
    return row?.find((block) => x >= block.left && x < block.left + block.width)?.node ?? null;
  }

  reveal(node) {
    const top = this.rowOf(node) * ROW_HEIGHT;
    const { scrollTop, clientHeight } = this.host;
    if (top < scrollTop || top + ROW_HEIGHT > scrollTop + clientHeight) {
      this.host.scrollTop = Math.max(0, top - clientHeight / 3);
    }
  }

  hover(node) {
    if (node === this.hovered) return;
    this.hovered = node;
    this.host.classList.toggle("pointing", node !== null);
    this.on.point(node ?? this.focused ?? this.zoomed);
    this.requestDraw();
  }

  focus(node) {
    this.focused = node;
    this.reveal(node);
    this.announce();
    this.on.point(node);
    this.requestDraw();
  }

  announce() {
    this.spoken.reverse();
    const [item, other] = this.spoken;
    const node = this.focused ?? this.zoomed;
    const siblings = node === 0 ? [0] : this.tree.children(this.tree.parent(node));
    item.textContent = this.on.describe(node);
    item.setAttribute("aria-level", String(this.rowOf(node) + 1));
    item.setAttribute("aria-posinset", String(siblings.indexOf(node) + 1));
    item.setAttribute("aria-setsize", String(siblings.length));
    item.setAttribute("aria-selected", "true");
    item.hidden = false;
    other.hidden = true;
    this.host.setAttribute("aria-activedescendant", item.id);
  }

  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const { tree } = this;
    const node = this.focused ?? this.zoomed;
    const sibling = (step) => {
      if (node === 0) return null;
      const all = tree.children(tree.parent(node));
      return all[all.indexOf(node) + step] ?? null;
    };
    const moves = {
      ArrowDown: () => tree.children(node)[0] ?? null,
      ArrowUp: () => (node === 0 ? null : tree.parent(node)),
      ArrowRight: () => sibling(1),
      ArrowLeft: () => sibling(-1),
      Home: () => this.zoomed,
    };
    if (event.key in moves) {
      const to = moves[event.key]();
      if (to !== null) {
        // Out of the zoomed part: show what holds both.
        if (this.rowOf(to) <= this.rowOf(this.zoomed) && to !== this.zoomed) this.zoom(to);
        else this.focus(to);
      }
    } else if (event.key === "Enter" || event.key === " ") this.zoom(node);
    else if (event.key === "Backspace") this.zoom(Math.max(tree.parent(this.zoomed), 0));
    else return;
    event.preventDefault();
  }
}

/** The custom property with a module's colour; the costliest come first. */
function moduleColour(data, module) {
  const rank = data.moduleRank[module];
  return rank < 10 ? `--module-${rank}` : "--frame-plain";
}

/** Ranks modules by the area that they take in the icicle. */
function rankModules(data, tree) {
  const area = new Float64Array(data.modules.length);
  for (const { id } of MEASURES.slice(0, 2)) {
    const values = tree.valuesOf(id);
    for (let node = 1; node < data.nodes.count; node += 1) {
      const module = data.frames.moduleIndex(data.nodes.frame[node]);
      if (module >= 0) area[module] += values[node] / Math.max(values[0], 1);
    }
  }
  const order = Array.from(area.keys()).sort((a, b) => area[b] - area[a] || a - b);
  data.moduleRank = new Int32Array(area.length);
  order.forEach((module, rank) => {
    data.moduleRank[module] = rank;
  });
  data.modulesByRank = order;
}
