// The table of call sites: sorted by its headings, filtered by the search,
// each row opening to the stacks behind it.

const ROWS_AT_ONCE = 50;
const STACKS_AT_ONCE = 5;

const SITE_COLUMNS = ["peak_bytes", "allocated_bytes", "allocations", "leaked_bytes"];

class SiteTable {
  /** `on.show(stack)` when a stack is to be shown in the icicle. */
  constructor(table, more, count, data, search, on) {
    Object.assign(this, { table, more, count, data, search, on });
    this.body = table.tBodies[0];
    this.open = new Set();
    this.sortBy = "peak_bytes";
    this.descending = true;
    this.limit = ROWS_AT_ONCE;
    this.stacksOf = null;
    for (const heading of table.querySelectorAll("th[data-column]")) {
      const button = element("button", { type: "button", class: "sort" }, heading.textContent);
      heading.replaceChildren(button);
      button.addEventListener("click", () => this.sort(heading.dataset.column));
    }
    more.addEventListener("click", () => {
      this.limit += 4 * ROWS_AT_ONCE;
      this.render();
    });
  }

  sort(column, descending = column === this.sortBy ? !this.descending : column !== "name") {
    this.sortBy = column;
    this.descending = descending;
    this.limit = ROWS_AT_ONCE;
    this.render();
  }

  name(site) {
    return this.data.frames.name(this.data.sites.frame[site]);
  }

  /** Sites that pass the search, in order. */
  order() {
    const { data, search } = this;
    const chosen = [];
    for (let site = 0; site < data.sites.count; site += 1) {
      if (!search.active || this.matchingStacks(site).length > 0) chosen.push(site);
    }
    const sign = this.descending ? -1 : 1;
    if (this.sortBy === "name") chosen.sort((a, b) => sign * (this.name(a) < this.name(b) ? -1 : this.name(a) > this.name(b) ? 1 : 0) || a - b);
    else {
      const column = data.sites.costs[this.sortBy];
      chosen.sort((a, b) => sign * (column[a] - column[b]) || a - b);
    }
    return chosen;
  }

  /** The stacks through a site that pass the search. */
  matchingStacks(site) {
    const stacks = this.stacks(site);
    return this.search.active ? stacks.filter((stack) => this.search.stacks[stack]) : stacks;
  }

  /** All stacks through a site, by its frame. */
  stacks(site) {
    if (this.stacksOf === null) {
      this.stacksOf = new Map();
      const { site: nodes } = this.data.stacks;
      for (let stack = 0; stack < nodes.length; stack += 1) {
        const frame = this.data.nodes.frame[nodes[stack]];
        if (!this.stacksOf.has(frame)) this.stacksOf.set(frame, []);
        this.stacksOf.get(frame).push(stack);
      }
    }
    return this.stacksOf.get(this.data.sites.frame[site]) ?? [this.data.sites.example[site]];
  }

  render() {
    const order = this.order();
    const shown = order.slice(0, this.limit);
    for (const heading of this.table.querySelectorAll("th[data-column]")) {
      const active = heading.dataset.column === this.sortBy;
      if (active) heading.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
      else heading.removeAttribute("aria-sort");
    }
    this.body.replaceChildren(...shown.flatMap((site) => this.row(site)));
    const all = this.data.sites.count;
    this.count.textContent = order.length === all ? plural(all, "call site") : `${formatCount(order.length)} of ${plural(all, "call site")} match`;
    this.more.hidden = shown.length >= order.length;
    this.more.textContent = `Show more (${formatCount(order.length - shown.length)} left)`;
    this.table.dataset.rows = String(shown.length);
  }

  row(site) {
    const { data } = this;
    const frame = data.sites.frame[site];
    const opened = this.open.has(site);
    const details = `site-stacks-${site}`;
    const button = element("button", { type: "button", class: "disclose", "aria-expanded": String(opened), "aria-controls": details }, this.name(site));
    const cells = SITE_COLUMNS.map((measure) => this.numberCell(measure, data.sites.costs[measure][site]));
    const row = element("tr", { class: "site", "data-site": site }, element("th", { scope: "row" }, button, placeLine(data, frame)), ...cells);
    row.addEventListener("click", (event) => {
      if (event.target.closest("button") !== button && event.target.closest("button, a")) return;
      if (String(getSelection()) !== "") return;
      if (this.open.has(site)) this.open.delete(site);
      else this.open.add(site);
      const fresh = this.row(site);
      const old = row.nextElementSibling;
      if (old?.classList.contains("stacks")) old.remove();
      row.replaceWith(...fresh);
      fresh[0].querySelector("button").focus({ preventScroll: true });
    });
    return opened ? [row, this.stacksRow(site, details)] : [row];
  }

  numberCell(measure, value) {
    const { label, format } = measureById(measure);
    const whole = this.data.totals[measure];
    const exact = measure === "allocations" ? plural(value, "call") : `${formatCount(value)} bytes`;
    const cell = element("td", { class: "number", title: `${label}: ${exact}, ${formatShare(value, whole)}` }, element("span", { class: "value" }, format(value)));
    if (measure === this.sortBy) {
      cell.append(element("span", { class: "share" }, formatShare(value, whole)), shareBar(value, whole));
    }
    return cell;
  }

  stacksRow(site, id) {
    const measure = this.sortBy === "name" ? "peak_bytes" : this.sortBy;
    const column = this.data.stacks.costs[measure];
    const all = this.stacks(site).length;
    const stacks = [...this.matchingStacks(site)].sort((a, b) => column[b] - column[a] || a - b);
    const what = stacks.length === all ? plural(all, "distinct stack") : `${formatCount(stacks.length)} of ${plural(all, "distinct stack")} match`;
    const list = element("div", { class: "stack-list" });
    const add = (from, to) => list.append(...stacks.slice(from, to).map((stack) => this.stack(stack)));
    add(0, STACKS_AT_ONCE);
    const cell = element("td", { colspan: SITE_COLUMNS.length + 1 }, element("p", { class: "muted" }, `${what}, the costliest first; innermost frame on top.`), list);
    if (stacks.length > STACKS_AT_ONCE) {
      const more = element("button", { type: "button", class: "quiet" }, `Show more stacks (${formatCount(stacks.length - STACKS_AT_ONCE)} left)`);
      let next = STACKS_AT_ONCE;
      more.addEventListener("click", () => {
        add(next, next + 20);
        next += 20;
        if (next >= stacks.length) more.remove();
        else more.textContent = `Show more stacks (${formatCount(stacks.length - next)} left)`;
      });
      cell.append(more);
    }
    return element("tr", { class: "stacks", id }, cell);
  }

  stack(stack) {
    const { data } = this;
    const { costs } = data.stacks;
    const show = element("button", { type: "button", class: "quiet" }, "Show in flame graph");
    show.addEventListener("click", () => this.on.show(stack));
    const summary = [
      `${formatBytes(costs.peak_bytes[stack])} live at peak`,
      `${formatBytes(costs.allocated_bytes[stack])} in ${plural(costs.allocations[stack], "allocation")}`,
      `${formatBytes(costs.leaked_bytes[stack])} leaked`,
    ];
    if (costs.failed[stack] > 0) summary.push(`${formatCount(costs.failed[stack])} failed`);
    const frames = element("ol", { class: "frames" });
    let left = data.stacks.allocatorFrames[stack];
    for (let node = data.stacks.leaf[stack]; node > 0; node = data.nodes.parent[node]) {
      frames.append(frameLine(data, data.nodes.frame[node], left > 0, this.search));
      left -= 1;
    }
    return element("section", { class: "stack" }, element("header", {}, element("span", {}, summary.join(" · ")), show), frames);
  }
}

/** The bar behind a share. */
function shareBar(value, whole) {
  const bar = element("span", { class: "bar", "aria-hidden": "true" });
  bar.style.width = `${whole > 0 ? Math.min(100, (100 * value) / whole) : 0}%`;
  return bar;
}

/** "file:line · module" below a name. */
function placeLine(data, frame, lines = undefined) {
  const line = element("span", { class: "place" });
  const place = sourcePlace(data, frame, lines);
  const module = moduleName(data, frame);
  if (place !== null) line.append(element("span", { class: "source" }, place));
  if (module !== null) line.append(moduleTag(data, frame));
  return line;
}

function moduleTag(data, frame) {
  const index = data.frames.moduleIndex(frame);
  const dot = element("span", { class: "dot", "aria-hidden": "true" });
  dot.style.background = `var(${moduleColour(data, index)})`;
  return element("span", { class: "module" }, dot, data.modules[index]);
}

function frameLine(data, frame, isAllocator, search) {
  const line = element("li", { class: isAllocator ? "frame allocator" : "frame" });
  if (search.matchesFrame(frame)) line.classList.add("match");
  line.append(element("span", { class: "name" }, data.frames.name(frame)));
  if (data.frames.has(frame, FRAME_INLINE)) line.append(element("span", { class: "tag" }, "inline"));
  if (data.frames.has(frame, FRAME_SIGNAL)) line.append(element("span", { class: "tag" }, "signal"));
  line.append(placeLine(data, frame));
  return line;
}
