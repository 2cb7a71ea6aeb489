// Live memory over time, drawn by uPlot.

class Timeline {
  constructor(host, data) {
    this.host = host;
    const { timeline, totals } = data;
    this.peakSeconds = totals.peak_at_ns / 1e9;
    this.peakBytes = totals.peak_bytes;
    this.columns = [timeline.time_ns.map((ns) => ns / 1e9), timeline.live_bytes, timeline.live_blocks];
    this.shownBytes = true;
    this.shownBlocks = false;
    if (timeline.time_ns.length < 2) return;
    host.replaceChildren();
    onColourScheme(() => this.build());
    new ResizeObserver(() => this.chart?.setSize({ width: host.clientWidth, height: this.height() })).observe(host);
  }

  height() {
    return innerWidth < 700 ? 200 : 240;
  }

  build() {
    this.chart?.destroy();
    const axis = { stroke: cssValue("--muted"), grid: { stroke: cssValue("--grid"), width: 1 }, ticks: { stroke: cssValue("--grid"), width: 1 }, font: cssValue("--chart-font") };
    // A level holds from one point to the next.
    const steps = uPlot.paths.stepped({ align: 1 });
    this.chart = new uPlot(
      {
        width: this.host.clientWidth,
        height: this.height(),
        padding: [12, 8, 0, 0],
        cursor: { points: { size: 7 }, drag: { x: true, y: false } },
        legend: { live: true },
        scales: { x: { time: false }, bytes: { range: fromZero }, blocks: { range: fromZero } },
        axes: [
          { ...axis, values: (_, ticks) => ticks.map((seconds) => formatTick(seconds)) },
          { ...axis, scale: "bytes", size: 76, incrs: BYTE_STEPS, values: (_, ticks) => ticks.map((bytes) => formatBytes(bytes)) },
          { ...axis, scale: "blocks", show: this.shownBlocks, side: 1, size: 76, grid: { show: false }, values: (_, ticks) => ticks.map((count) => formatCount(Math.round(count))) },
        ],
        series: [
          { label: "Time", value: (_, seconds) => (seconds === null ? "–" : formatDuration(seconds * 1e9)) },
          { label: "Live bytes", scale: "bytes", show: this.shownBytes, stroke: cssValue("--accent"), fill: cssValue("--accent-soft"), width: 1.5, paths: steps, points: { show: false }, value: (_, bytes) => (bytes === null ? "–" : formatBytes(bytes)) },
          { label: "Live blocks", scale: "blocks", show: this.shownBlocks, stroke: cssValue("--second"), width: 1, paths: steps, points: { show: false }, value: (_, count) => (count === null ? "–" : formatCount(count)) },
        ],
        hooks: {
          draw: [(chart) => this.markPeak(chart)],
        },
      },
      this.columns,
      this.host,
    );
    this.host.dataset.points = String(this.columns[0].length);
    this.labelLegend();
  }

  // uPlot's legend switches series by click alone.
  labelLegend() {
    for (const [index, row] of this.host.querySelectorAll(".u-legend .u-series").entries()) {
      if (index === 0) continue;
      const label = row.querySelector("th");
      label.tabIndex = 0;
      label.setAttribute("role", "switch");
      label.setAttribute("aria-checked", String(this.chart.series[index].show));
      // The axis of the blocks comes and goes with them: a new chart.
      label.addEventListener("click", () => {
        if (index === 2) this.shownBlocks = !this.shownBlocks;
        this.shownBytes = index === 1 ? !this.shownBytes : this.shownBytes;
        queueMicrotask(() => this.build());
      });
      label.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        label.click();
      });
    }
  }

  markPeak(chart) {
    const x = chart.valToPos(this.peakSeconds, "x", true);
    const { left, top, width, height } = chart.bbox;
    if (!(x >= left && x <= left + width)) return;
    const { ctx } = chart;
    const ratio = devicePixelRatio || 1;
    ctx.save();
    ctx.strokeStyle = cssValue("--peak");
    ctx.fillStyle = cssValue("--peak");
    ctx.lineWidth = ratio;
    ctx.setLineDash([4 * ratio, 3 * ratio]);
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x, top + height);
    ctx.stroke();
    ctx.font = `600 ${12 * ratio}px system-ui, sans-serif`;
    ctx.textBaseline = "top";
    const toLeft = x > left + width / 2;
    ctx.textAlign = toLeft ? "right" : "left";
    ctx.fillText(`peak ${formatBytes(this.peakBytes)}`, x + (toLeft ? -6 : 6) * ratio, top + 4 * ratio);
    ctx.restore();
  }
}

/** Steps of the byte axis: round numbers of binary units. */
const BYTE_STEPS = Array.from({ length: 16 }, (_, power) => [1, 2, 4, 8, 16, 32, 64, 128, 256, 512].map((step) => step * 1024 ** power))
  .slice(0, 6)
  .flat();

function fromZero(_, least, most) {
  return [0, most > 0 ? most * 1.12 : 1];
}

function formatTick(seconds) {
  if (seconds === 0) return "0";
  if (Math.abs(seconds) >= 1) return `${Number(seconds.toFixed(2))} s`;
  if (Math.abs(seconds) >= 1e-3) return `${Number((seconds * 1e3).toFixed(2))} ms`;
  return `${Number((seconds * 1e6).toFixed(2))} us`;
}
