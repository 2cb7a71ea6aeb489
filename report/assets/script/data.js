// The findings as typed arrays. The block is written by `html/payload.rs`,
// which describes its form.

const MEASURES = [
  { id: "peak_bytes", label: "Live at peak", format: formatBytes },
  { id: "allocated_bytes", label: "Allocated bytes", format: formatBytes },
  { id: "allocations", label: "Allocation count", format: formatCount },
  { id: "leaked_bytes", label: "Leaked", format: formatBytes },
];

function measureById(id) {
  return MEASURES.find((measure) => measure.id === id) ?? MEASURES[0];
}

/** Bits of a frame's flags. */
const FRAME_INLINE = 1;
const FRAME_SIGNAL = 2;
const FRAME_SYNTHETIC = 4;

function floatColumns(columns) {
  const typed = {};
  for (const [name, column] of Object.entries(columns)) typed[name] = Float64Array.from(column);
  return typed;
}

function functionIds(frames) {
  const ids = new Map();
  return Int32Array.from(frames.name, (name, frame) => {
    const key = `${name} ${frames.file[frame]} ${frames.module[frame]}`;
    let id = ids.get(key);
    if (id === undefined) ids.set(key, (id = ids.size));
    return id;
  });
}

function readData(block) {
  const raw = JSON.parse(block.textContent);
  const { strings, frames } = raw;
  const text = (reference) => (reference === 0 ? null : strings[reference - 1]);

  const nodeCount = raw.nodes.frame.length;
  const parent = new Int32Array(nodeCount);
  parent[0] = -1;
  for (let node = 1; node < nodeCount; node += 1) parent[node] = node - raw.nodes.up[node];

  const stackCount = raw.stacks.node.length;
  const leaf = Int32Array.from(raw.stacks.node);
  // The icicle ends at the call site: every stack ends in malloc or one of
  // its relatives, which would only add a row that says nothing.
  const site = new Int32Array(stackCount);
  for (let stack = 0; stack < stackCount; stack += 1) {
    let node = leaf[stack];
    for (let step = raw.stacks.allocator[stack]; step > 0; step -= 1) node = parent[node];
    site[stack] = node;
  }

  return {
    totals: raw.totals,
    timeline: raw.timeline,
    modules: raw.modules.map(text),
    frames: {
      count: frames.name.length,
      name: (frame) => text(frames.name[frame]),
      shortName: (frame) => text(frames.short[frame]),
      file: (frame) => text(frames.file[frame]),
      line: (frame) => frames.line[frame],
      /** Position in `modules`, or -1. */
      moduleIndex: (frame) => frames.module[frame] - 1,
      /** Equal for frames of one function of one file and module. */
      functionOf: functionIds(frames),
      has: (frame, flag) => (frames.flags[frame] & flag) !== 0,
    },
    nodes: { count: nodeCount, parent, frame: Int32Array.from(raw.nodes.frame) },
    stacks: {
      count: stackCount,
      leaf,
      site,
      allocatorFrames: raw.stacks.allocator,
      costs: floatColumns(raw.stacks.costs),
    },
    sites: {
      count: raw.sites.frame.length,
      frame: Int32Array.from(raw.sites.frame),
      example: raw.sites.example,
      costs: floatColumns(raw.sites.costs),
    },
  };
}

/** "src/parse.c:120", of some lines "src/parse.c:120, 124", of none "src/parse.c"; or null. */
function sourcePlace(data, frame, lines = [data.frames.line(frame)].filter((line) => line > 0)) {
  const file = data.frames.file(frame);
  if (file === null || lines.length === 0) return file;
  return `${file}:${lines.slice(0, 4).join(", ")}${lines.length > 4 ? ", …" : ""}`;
}

function moduleName(data, frame) {
  const index = data.frames.moduleIndex(frame);
  return index < 0 ? null : data.modules[index];
}
