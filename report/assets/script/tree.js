// Call trees over the stacks. Both have one interface, which the icicle
// draws from: `setMeasure`, `value`, `selfValue`, `costs`, `children`,
// `parent`, `frame`. Children come sorted by value and only when asked for,
// so that a view costs what is seen of it, not what there is.

/** From the outermost caller down to the call sites. */
class CallTree {
  constructor(data) {
    this.data = data;
    const { parent, count } = data.nodes;
    // Nodes below every call site are the allocation functions: not shown.
    const shown = new Uint8Array(count);
    shown[0] = 1;
    for (const node of data.stacks.site) shown[node] = 1;
    for (let node = count - 1; node > 0; node -= 1) if (shown[node]) shown[parent[node]] = 1;

    this.firstChild = new Int32Array(count + 1);
    for (let node = 1; node < count; node += 1) if (shown[node]) this.firstChild[parent[node] + 1] += 1;
    for (let node = 0; node < count; node += 1) this.firstChild[node + 1] += this.firstChild[node];
    const next = this.firstChild.slice();
    this.childList = new Int32Array(this.firstChild[count]);
    for (let node = 1; node < count; node += 1) {
      if (!shown[node]) continue;
      this.childList[next[parent[node]]] = node;
      next[parent[node]] += 1;
    }
    this.valuesByMeasure = new Map();
  }

  /** Inclusive values of all nodes: parents come before their children. */
  valuesOf(measure) {
    let values = this.valuesByMeasure.get(measure);
    if (values) return values;
    const { parent, count } = this.data.nodes;
    const { site, costs } = this.data.stacks;
    const column = costs[measure];
    values = new Float64Array(count);
    for (let stack = 0; stack < column.length; stack += 1) values[site[stack]] += column[stack];
    for (let node = count - 1; node > 0; node -= 1) values[parent[node]] += values[node];
    this.valuesByMeasure.set(measure, values);
    return values;
  }

  setMeasure(measure) {
    this.values = this.valuesOf(measure);
    this.sorted = new Map();
  }

  value(node) {
    return this.values[node];
  }

  selfValue(node) {
    let rest = this.values[node];
    for (let at = this.firstChild[node]; at < this.firstChild[node + 1]; at += 1) {
      rest -= this.values[this.childList[at]];
    }
    return rest;
  }

  /** All measures of one node. */
  costs(node) {
    return Object.fromEntries(MEASURES.map(({ id }) => [id, this.valuesOf(id)[node]]));
  }

  children(node) {
    let list = this.sorted.get(node);
    if (list) return list;
    list = Array.from(this.childList.subarray(this.firstChild[node], this.firstChild[node + 1]))
      .filter((child) => this.values[child] > 0)
      .sort((a, b) => this.values[b] - this.values[a] || a - b);
    this.sorted.set(node, list);
    return list;
  }

  parent(node) {
    return this.data.nodes.parent[node];
  }

  frame(node) {
    return this.data.nodes.frame[node];
  }
}

/**
 * From the call sites out to their callers. Nodes are made when a view
 * first asks for them: each holds its stacks and, per stack, how far up the
 * path it has come.
 */
class CallerTree {
  constructor(data) {
    this.data = data;
    const all = Int32Array.from({ length: data.stacks.count }, (_, stack) => stack);
    this.list = [{ parent: -1, frame: data.nodes.frame[0], stacks: all, at: data.stacks.site, made: null }];
  }

  setMeasure(measure) {
    this.column = this.data.stacks.costs[measure];
    for (const node of this.list) {
      node.value = this.sum(node.stacks, this.column);
      node.sorted = null;
    }
  }

  sum(stacks, column) {
    let sum = 0;
    for (const stack of stacks) sum += column[stack];
    return sum;
  }

  value(id) {
    return this.list[id].value;
  }

  selfValue(id) {
    return this.children(id).reduce((rest, child) => rest - this.value(child), this.value(id));
  }

  costs(id) {
    const { stacks } = this.list[id];
    return Object.fromEntries(MEASURES.map((measure) => [measure.id, this.sum(stacks, this.data.stacks.costs[measure.id])]));
  }

  children(id) {
    const node = this.list[id];
    node.made ??= this.expand(id);
    node.sorted ??= node.made
      .filter((child) => this.list[child].value > 0)
      .sort((a, b) => this.list[b].value - this.list[a].value || a - b);
    return node.sorted;
  }

  expand(id) {
    const { parent, frame } = this.data.nodes;
    const { stacks, at } = this.list[id];
    const groups = new Map();
    for (let i = 0; i < stacks.length; i += 1) {
      const position = at[i];
      if (position <= 0) continue;
      let group = groups.get(frame[position]);
      if (!group) groups.set(frame[position], (group = { stacks: [], at: [] }));
      group.stacks.push(stacks[i]);
      group.at.push(parent[position]);
    }
    const made = [];
    for (const [groupFrame, group] of groups) {
      made.push(this.list.length);
      this.list.push({
        parent: id,
        frame: groupFrame,
        stacks: Int32Array.from(group.stacks),
        at: Int32Array.from(group.at),
        made: null,
        sorted: null,
        value: this.sum(group.stacks, this.column),
      });
    }
    return made;
  }

  parent(id) {
    return this.list[id].parent;
  }

  frame(id) {
    return this.list[id].frame;
  }
}

/** The nodes from the root down to `node`, both included. */
function pathTo(tree, node) {
  const path = [];
  for (let at = node; at >= 0; at = tree.parent(at)) path.push(at);
  return path.reverse();
}
