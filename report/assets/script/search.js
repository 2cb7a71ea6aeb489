// What a search matches: a regular expression over function, file and
// module, tried once per distinct frame.

/** `{ regex }`, `{ regex: null }` for an empty query, or `{ error }`. */
function parseQuery(query) {
  if (query.trim() === "") return { regex: null };
  try {
    // Lower-case queries ignore case; a capital letter makes them exact.
    return { regex: new RegExp(query, /\p{Lu}/u.test(query.replace(/\\./g, "")) ? "u" : "iu") };
  } catch (error) {
    return { error: error.message };
  }
}

class Search {
  constructor(data) {
    this.data = data;
    this.clear();
  }

  clear() {
    this.regex = null;
    this.frames = null;
    this.stacks = null;
  }

  /** Which frames match, and which stacks have such a frame. */
  run(regex) {
    this.clear();
    if (regex === null) return;
    this.regex = regex;
    const { data } = this;
    const moduleMatches = data.modules.map((name) => regex.test(name));
    this.frames = new Uint8Array(data.frames.count);
    for (let frame = 0; frame < data.frames.count; frame += 1) {
      const file = data.frames.file(frame);
      const module = data.frames.moduleIndex(frame);
      const matches =
        regex.test(data.frames.name(frame)) ||
        (file !== null && regex.test(file)) ||
        (module >= 0 && moduleMatches[module]);
      this.frames[frame] = matches ? 1 : 0;
    }
    const { parent, frame, count } = data.nodes;
    const below = new Uint8Array(count);
    for (let node = 1; node < count; node += 1) below[node] = below[parent[node]] | this.frames[frame[node]];
    this.stacks = Uint8Array.from(data.stacks.site, (node) => below[node]);
  }

  get active() {
    return this.frames !== null;
  }

  matchesFrame(frame) {
    return this.frames !== null && this.frames[frame] === 1;
  }

  /** Sum of a measure over the stacks that match. */
  matchedValue(measure) {
    const column = this.data.stacks.costs[measure];
    let sum = 0;
    for (let stack = 0; stack < column.length; stack += 1) if (this.stacks[stack]) sum += column[stack];
    return sum;
  }
}
