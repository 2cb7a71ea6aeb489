// Call trees over the stacks, as the icicle draws them. Frames of one
// function are one block, whatever lines they stand on. Nodes are made when
// a view first asks for them and sorted by value, so that a view costs what
// is seen of it, not what there is.

/** What both trees do. A node's `members` are what its subclass sums up. */
class Tree {
  constructor(data, rootMembers) {
    this.data = data;
    this.list = [{ parent: -1, members: rootMembers, frames: new Set([data.nodes.frame[0]]), made: null, sorted: null, value: 0 }];
  }

  setMeasure(measure) {
    this.measure = measure;
    for (const node of this.list) {
      node.value = this.sum(node.members, measure);
      node.sorted = null;
    }
  }

  value(id) {
    return this.list[id].value;
  }

  selfValue(id) {
    return this.children(id).reduce((rest, child) => rest - this.value(child), this.value(id));
  }

  /** All measures of one node. */
  costs(id) {
    return Object.fromEntries(MEASURES.map((measure) => [measure.id, this.sum(this.list[id].members, measure.id)]));
  }

  children(id) {
    const node = this.list[id];
    node.made ??= this.expand(id);
    node.sorted ??= node.made
      .filter((child) => this.list[child].value > 0)
      .sort((a, b) => this.list[b].value - this.list[a].value || a - b);
    return node.sorted;
  }

  /** Makes the children: one per function among what `eachBelow` names. */
  expand(id) {
    const { functionOf } = this.data.frames;
    const groups = new Map();
    this.eachBelow(id, (frame, member) => {
      const key = functionOf[frame];
      let group = groups.get(key);
      if (!group) groups.set(key, (group = { members: [], frames: new Set() }));
      group.members.push(member);
      group.frames.add(frame);
    });
    return Array.from(groups.values(), ({ members, frames }) => {
      this.list.push({ parent: id, members, frames, made: null, sorted: null, value: this.sum(members, this.measure) });
      return this.list.length - 1;
    });
  }

  parent(id) {
    return this.list[id].parent;
  }

  /** One frame of the node: all of them share function, file and module. */
  frame(id) {
    return this.list[id].frames.values().next().value;
  }

  /** The source lines of its frames, in order; none when unknown. */
  lines(id) {
    const lines = new Set(Array.from(this.list[id].frames, (frame) => this.data.frames.line(frame)));
    lines.delete(0);
    return [...lines].sort((a, b) => a - b);
  }
}

/** From the outermost caller down to the call sites. Members are nodes of `data.nodes`. */
class CallTree extends Tree {
  constructor(data) {
    super(data, [0]);
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

  sum(nodes, measure) {
    const values = this.valuesOf(measure);
    let sum = 0;
    for (const node of nodes) sum += values[node];
    return sum;
  }

  eachBelow(id, name) {
    const { frame } = this.data.nodes;
    for (const node of this.list[id].members) {
      for (let at = this.firstChild[node]; at < this.firstChild[node + 1]; at += 1) {
        name(frame[this.childList[at]], this.childList[at]);
      }
    }
  }

  /** The node of a stack's call site, or the nearest above it with a value. */
  find(stack) {
    const path = [];
    for (let node = this.data.stacks.site[stack]; node > 0; node = this.data.nodes.parent[node]) path.push(node);
    let id = 0;
    for (const node of path.reverse()) {
      const next = this.children(id).find((child) => this.list[child].members.includes(node));
      if (next === undefined) break;
      id = next;
    }
    return id;
  }
}

/**
 * From the call sites out to their callers. A member is a stack together
 * with the node that it has come to on its way out, in one number
 * (stack * nodes + node): there are as many as stacks on every row.
 */
class CallerTree extends Tree {
  constructor(data) {
    super(data, Array.from(data.stacks.site, (node, stack) => stack * data.nodes.count + node));
  }

  sum(members, measure) {
    const column = this.data.stacks.costs[measure];
    let sum = 0;
    for (const member of members) sum += column[Math.floor(member / this.data.nodes.count)];
    return sum;
  }

  eachBelow(id, name) {
    const { parent, frame, count } = this.data.nodes;
    for (const member of this.list[id].members) {
      const node = member % count;
      if (node > 0) name(frame[node], member - node + parent[node]);
    }
  }
}

/** The nodes from the root down to `node`, both included. */
function pathTo(tree, node) {
  const path = [];
  for (let at = node; at >= 0; at = tree.parent(at)) path.push(at);
  return path.reverse();
}
