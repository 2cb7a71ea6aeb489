// Put into a copy of the report by the browser test: notes every error, uses
// the page as a reader does, and posts what it saw to the test's server.
// The tests in `browser.rs` say what the numbers must be.
(() => {
  "use strict";
  const seen = { errors: [], ran: [] };
  addEventListener("error", (event) => seen.errors.push(`error: ${event.message}`));
  addEventListener("unhandledrejection", (event) => seen.errors.push(`rejection: ${event.reason}`));
  addEventListener("securitypolicyviolation", (event) => seen.errors.push(`policy: ${event.violatedDirective} ${event.blockedURI}`));
  for (const level of ["error", "warn"]) {
    const original = console[level];
    console[level] = (...words) => {
      seen.errors.push(`console.${level}: ${words.join(" ")}`);
      original.apply(console, words);
    };
  }
  // What the hostile names call, should one of them run.
  for (let number = 0; number < 10; number += 1) window[`mtxss${number}`] = () => seen.ran.push(number);

  const get = (id) => document.getElementById(id);
  const icicle = () => get("icicle");
  const numbers = () => Object.fromEntries(Object.entries(icicle().dataset).map(([name, value]) => [name, Number(value)]));
  const settle = () => new Promise((resolve) => setTimeout(resolve, 150));
  const names = () => [...document.querySelectorAll("#sites-table tr.site .disclose")].map((button) => button.textContent);

  async function search(query) {
    get("search").value = query;
    get("search").dispatchEvent(new Event("input", { bubbles: true }));
    await settle();
    return { icicle: numbers(), result: get("search-result").textContent, invalid: get("search").getAttribute("aria-invalid"), sites: get("sites-count").textContent };
  }

  function press(key, target = icicle()) {
    target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  }

  /** Colours on the canvas at the middle of a row: how many differ. */
  function coloursOfRow(row) {
    const canvas = icicle().querySelector("canvas");
    const ratio = canvas.width / canvas.clientWidth;
    const { data } = canvas.getContext("2d").getImageData(0, Math.round((row * 20 + 3) * ratio), canvas.width, 1);
    const colours = new Set();
    for (let at = 0; at < data.length; at += 4) colours.add(`${data[at]},${data[at + 1]},${data[at + 2]},${data[at + 3]}`);
    return colours.size;
  }

  function click(row, x) {
    const box = icicle().getBoundingClientRect();
    icicle().dispatchEvent(new MouseEvent("click", { bubbles: true, clientX: box.left + x, clientY: box.top + row * 20 + 10 - icicle().scrollTop }));
  }

  async function use() {
    seen.ready = document.documentElement.dataset.ready ?? null;
    seen.first = numbers();
    seen.coloursOfRoot = coloursOfRow(0);
    seen.coloursBelow = coloursOfRow(9);
    seen.chartPoints = Number(get("timeline-chart").dataset.points ?? 0);
    seen.chartCanvas = document.querySelectorAll("#timeline-chart canvas").length;

    // Numbers of the table, as the script writes them.
    seen.rows = [...document.querySelectorAll("#sites-table tr.site")].map((row) => [
      row.querySelector(".disclose").textContent,
      ...[...row.querySelectorAll(".value")].map((value) => value.textContent),
      row.querySelector(".share").textContent,
    ]);

    // The blocks come with an axis of their own, and go.
    const axes = () => document.querySelectorAll("#timeline-chart .u-axis:not(.u-off)").length;
    const blocks = () => document.querySelectorAll("#timeline-chart .u-legend th")[2];
    seen.axes = [axes()];
    for (let turn = 0; turn < 2; turn += 1) {
      blocks().dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
      await settle();
      seen.axes.push(axes(), blocks().getAttribute("aria-checked"));
    }

    // Every measure: the root of both trees.
    seen.measures = {};
    for (const radio of document.querySelectorAll("input[name=measure]")) {
      radio.click();
      await settle();
      const upright = numbers().rootValue;
      get("invert").click();
      await settle();
      seen.measures[radio.value] = { upright, inverted: numbers().rootValue, first: names()[0], details: get("frame-costs").textContent };
      get("invert").click();
    }
    document.querySelector("input[name=measure]").click();
    await settle();

    // Zoom by click, by keyboard, and back.
    click(12, 40);
    await settle();
    seen.zoomed = { ...numbers(), crumbs: document.querySelectorAll("#crumbs button").length };
    press("Escape", document.body);
    await settle();
    seen.reset = numbers();
    icicle().focus();
    for (const key of ["ArrowDown", "ArrowDown", "Enter"]) press(key);
    await settle();
    seen.byKeys = { ...numbers(), spoken: get(icicle().getAttribute("aria-activedescendant"))?.textContent ?? null };
    press("Backspace");
    press("Escape", document.body);
    await settle();

    // Search.
    press("/", document.body);
    seen.slashFocuses = document.activeElement === get("search");
    seen.search = await search("dictresize|list_resize");
    seen.noMatch = await search("no such name");
    seen.badQuery = await search("(");
    press("Escape", get("search"));
    await settle();
    seen.cleared = { icicle: numbers(), value: get("search").value };

    // Table: sort twice by name, open the first row.
    const heading = document.querySelector("th[data-column=name] button");
    heading.click();
    seen.byName = names();
    heading.click();
    seen.byNameDown = names();
    document.querySelector("th[data-column=allocations] button").click();
    seen.byCount = names();
    document.querySelector("#sites-table .disclose").click();
    seen.openStacks = document.querySelectorAll("#sites-table tr.stacks .stack").length;
    seen.openFrames = [...document.querySelectorAll("#sites-table tr.stacks .stack:first-of-type .frame")].map((line) => line.textContent);
    document.querySelector("#sites-table .stack button")?.click();
    await settle();
    seen.shown = numbers();
    press("Escape", document.body);
    await settle();
  }

  function look() {
    seen.text = document.body.innerText;
    seen.figures = [...document.querySelectorAll("#summary .card")].map((card) => [card.querySelector("dt").textContent, card.querySelector(".figure").textContent]);
    seen.elements = [...new Set([...document.body.querySelectorAll("*")].map((node) => node.localName))];
    seen.attributes = [...new Set([...document.body.querySelectorAll("*")].flatMap((node) => node.getAttributeNames()))];
  }

  addEventListener("load", async () => {
    try {
      await settle();
      if (document.querySelector("#sites-table tr.site")) await use();
      look();
    } catch (error) {
      seen.errors.push(`probe: ${error.stack ?? error}`);
    }
    await fetch("/result", { method: "POST", body: JSON.stringify(seen) });
  });
})();
