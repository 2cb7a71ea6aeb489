// Joins the parts: one measure and one search for the whole page.

const data = readData(byId("findings"));
const callTree = new CallTree(data);
callTree.setMeasure(MEASURES[0].id);
rankModules(data, callTree);
const search = new Search(data);
let callerTree = null;

const state = { measure: MEASURES[0], inverted: false };

const icicle = new Icicle(byId("icicle"), data, search, {
  point: (node) => describeFrame(node),
  zoom: (node) => {
    showPath(node);
    describeFrame(node);
  },
  describe: (node) => {
    const place = sourcePlace(data, icicle.tree.frame(node), icicle.tree.lines(node));
    return [nameOf(node), place, valueText(node), `${plural(icicle.tree.children(node).length, "child frame")}`].filter(Boolean).join(", ");
  },
});

const sites = new SiteTable(byId("sites-table"), byId("sites-more"), byId("sites-count"), data, search, {
  show: (stack) => {
    setInverted(false);
    icicle.zoom(callTree.find(stack));
    byId("flame").scrollIntoView({ block: "start" });
    icicle.host.focus({ preventScroll: true });
  },
});

function nameOf(node) {
  return data.frames.name(icicle.tree.frame(node));
}

function valueText(node) {
  const value = icicle.tree.value(node);
  const share = formatShare(value, data.totals[state.measure.id]);
  return `${state.measure.format(value)}, ${share} of ${state.measure.label.toLowerCase()}`;
}

// What is pointed at, in words.
function describeFrame(node) {
  const { tree } = icicle;
  const frame = tree.frame(node);
  const value = tree.value(node);
  const self = tree.selfValue(node);
  const total = data.totals[state.measure.id];
  const line = byId("frame-name");
  line.replaceChildren(element("strong", { class: "name" }, nameOf(node)));
  if (data.frames.has(frame, FRAME_INLINE)) line.append(element("span", { class: "tag" }, "inline"));
  line.append(placeLine(data, frame, tree.lines(node)));
  const costs = tree.costs(node);
  const facts = [
    `${state.measure.format(value)} (${formatShare(value, total)})`,
    node === icicle.zoomed || icicle.zoomed === 0 ? null : `${formatShare(value, tree.value(icicle.zoomed))} of the zoomed frame`,
    state.inverted ? null : `self ${state.measure.format(self)}`,
    ...MEASURES.filter(({ id }) => id !== state.measure.id).map(({ id, label, format }) => `${label.toLowerCase()} ${format(costs[id])}`),
  ];
  byId("frame-costs").textContent = facts.filter(Boolean).join("  ·  ");
}

// The way from the root to the zoomed frame.
function showPath(zoomed) {
  const path = pathTo(icicle.tree, zoomed);
  const shown = path.length > 7 ? [path[0], null, ...path.slice(-5)] : path;
  byId("crumbs").replaceChildren(
    ...shown.map((node) => {
      if (node === null) return element("li", { class: "muted" }, "…");
      const frame = icicle.tree.frame(node);
      const button = element("button", { type: "button", class: "crumb", title: data.frames.name(frame) }, data.frames.shortName(frame));
      if (node === zoomed) button.setAttribute("aria-current", "true");
      button.addEventListener("click", () => icicle.zoom(node));
      return element("li", {}, button);
    }),
  );
  byId("zoom-reset").disabled = zoomed === 0;
}

function setMeasure(id) {
  state.measure = measureById(id);
  callTree.setMeasure(id);
  callerTree?.setMeasure(id);
  icicle.refresh();
  showPath(icicle.zoomed);
  describeFrame(icicle.zoomed);
  showMatches();
  byId("flame-empty").hidden = icicle.tree.value(0) > 0;
  byId("flame-empty").textContent = `Nothing to show: ${state.measure.label.toLowerCase()} is 0.`;
  sites.sort(id, true);
}

function setInverted(inverted) {
  if (inverted === state.inverted) return;
  state.inverted = inverted;
  byId("invert").setAttribute("aria-pressed", String(inverted));
  byId("icicle-order").textContent = inverted ? "Call sites on top, their callers below" : "Callers above, callees below";
  if (inverted && callerTree === null) {
    callerTree = new CallerTree(data);
    callerTree.setMeasure(state.measure.id);
  }
  icicle.setTree(inverted ? callerTree : callTree);
  showPath(0);
  describeFrame(0);
}

function runSearch(query) {
  const { regex, error } = parseQuery(query);
  byId("search").setAttribute("aria-invalid", String(error !== undefined));
  if (error !== undefined) {
    byId("search-result").textContent = "not a regular expression yet";
    return;
  }
  search.run(regex);
  icicle.requestDraw();
  sites.limit = ROWS_AT_ONCE;
  sites.render();
  showMatches();
}

function showMatches() {
  const result = byId("search-result");
  if (!search.active) {
    result.textContent = "";
    delete icicle.host.dataset.matched;
    return;
  }
  const value = search.matchedValue(state.measure.id);
  icicle.host.dataset.matched = String(value);
  result.textContent = `${formatShare(value, data.totals[state.measure.id])} · ${state.measure.format(value)}`;
}

function showLegend() {
  byId("legend").replaceChildren(
    ...data.modulesByRank.slice(0, 10).map((module) => {
      const dot = element("span", { class: "dot", "aria-hidden": "true" });
      dot.style.background = `var(${moduleColour(data, module)})`;
      return element("li", {}, dot, data.modules[module]);
    }),
  );
}

function wire() {
  for (const radio of document.querySelectorAll("input[name=measure]")) {
    radio.addEventListener("change", () => setMeasure(radio.value));
  }
  let waiting = 0;
  byId("search").addEventListener("input", (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => runSearch(event.target.value), 80);
  });
  byId("invert").addEventListener("click", () => setInverted(!state.inverted));
  byId("zoom-reset").addEventListener("click", () => icicle.zoom(0));
  addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      byId("search").focus();
      byId("search").select();
    } else if (event.key === "Escape") {
      if (byId("search").value !== "") {
        byId("search").value = "";
        runSearch("");
      } else icicle.zoom(0);
      if (typing) typing.blur();
    }
  });
  for (const link of document.querySelectorAll("a[data-site]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      revealSite(Number(link.dataset.site));
    });
  }
}

/** Opens a site's row, whatever the search hides. */
function revealSite(site) {
  if (search.active) {
    byId("search").value = "";
    runSearch("");
  }
  sites.open.add(site);
  sites.limit = Math.max(sites.limit, sites.order().indexOf(site) + 1);
  sites.render();
  const row = sites.body.querySelector(`tr[data-site="${site}"]`);
  row?.scrollIntoView({ block: "center" });
  row?.querySelector("button").focus({ preventScroll: true });
}

wire();
for (const hidden of document.querySelectorAll("[data-needs-script]")) hidden.hidden = false;
new Timeline(byId("timeline-chart"), data);
icicle.setTree(callTree);
showLegend();
setMeasure(document.querySelector("input[name=measure]:checked")?.value ?? MEASURES[0].id);
document.documentElement.dataset.ready = "true";
