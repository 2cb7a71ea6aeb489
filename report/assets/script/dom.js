// Building elements. Text goes in through `textContent` only: names come
// from the recorded program and are never markup.

/** `element("td", { class: "number", title: "…" }, "text", childNode, …)` */
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) {
    if (child === null || child === undefined) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

function byId(id) {
  return document.getElementById(id);
}

/** A custom property of the style sheet: colours live there, not here. */
function cssValue(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Calls `action` now and whenever the colour scheme changes; printing is light. */
function onColourScheme(action) {
  action();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", action);
  addEventListener("beforeprint", action);
  addEventListener("afterprint", action);
}
