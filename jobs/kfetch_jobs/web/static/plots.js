// Lag and throughput over time, with the ends of runs as dashed lines.
"use strict";
(() => {
  const section = document.getElementById("plots");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const UTC = (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC");
  const plots = [
    { id: "plot-lag", column: "lag", value: "lag-value", stroke: "--warn", gaps: true },
    { id: "plot-rate", column: "rows_s", value: "rate-value", stroke: "--accent", gaps: false },
  ];
  const STEPS = Array.from({ length: 48 }, (_, n) => [1, 2, 5][n % 3] * 10 ** (Math.floor(n / 3) - 1));
  let told = null;

  const windowName = () => section.querySelector("input[name=window]:checked").value;
  const seconds = () => ({ "15m": 900, "3h": 10800, "24h": 86400 })[windowName()];

  const ends = (u) => {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const end of told?.ends ?? []) {
      if (end.t < u.scales.x.min || end.t > u.scales.x.max) continue;
      const x = Math.round(u.valToPos(end.t, "x", true)) + 0.5;
      ctx.strokeStyle = colour(["finished", "stopped"].includes(end.kind) ? "--idle" : "--bad");
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  };

  const options = (plot, box) => {
    const stroke = colour(plot.stroke), soft = colour("--soft"), line = colour("--line");
    const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line, size: 4 }, font: "12px system-ui" };
    const output = document.getElementById(plot.value);
    return {
      width: box.clientWidth, height: box.clientHeight, tzDate: UTC, legend: { show: false },
      cursor: { sync: { key: "time" }, y: false, points: { size: 7 } },
      scales: { x: { range: () => [told.now - seconds(), told.now] }, y: { range: (u, low, high) => [0, Math.max(high * 1.1, 1)] } },
      axes: [{ ...axis, size: 26, space: 60, values: "{HH}:{mm}" }, { ...axis, size: 54, space: 34, incrs: plot.column === "lag" ? STEPS.slice(3) : STEPS, values: (u, ticks) => ticks.map((tick) => figure(tick)) }],
      series: [{}, { stroke, width: 1.75, fill: `color-mix(in srgb, ${stroke} 14%, transparent)`, points: { size: 4, fill: stroke }, spanGaps: plot.gaps }],
      hooks: {
        draw: [ends],
        setCursor: [(u) => {
          const at = u.cursor.idx;
          const value = at === null || at === undefined ? null : u.data[1][at];
          output.textContent = at === null || at === undefined ? "" : `${figure(value)} at ${new Date(u.data[0][at] * 1e3).toISOString().slice(11, 19)} UTC`;
        }],
      },
    };
  };

  const draw = () => {
    if (!told) return;
    const { points } = told;
    const empty = section.querySelector(".empty");
    empty.hidden = points.t.length > 0;
    empty.textContent = told.reading ? "Its history is being read." : empty.dataset.none;
    section.querySelector(".plotpair").hidden = points.t.length === 0;
    for (const plot of plots) {
      const box = document.getElementById(plot.id);
      const data = [points.t, points[plot.column]];
      if (!plot.drawn && box.clientWidth) plot.drawn = new uPlot(options(plot, box), data, box);
      else plot.drawn?.setData(data);
      const known = data[1].filter((value) => value !== null);
      const word = known.length ? `${figure(known.at(-1))} now, ${figure(Math.max(...known))} at most` : "nothing known";
      box.setAttribute("aria-label", `${box.previousElementSibling.firstChild.textContent}: ${word} in this window`);
    }
  };

  const ask = follow(4000, () => `${section.dataset.curves}?window=${windowName()}`, (fresh) => {
    told = fresh;
    draw();
  });
  section.addEventListener("change", ask);
  new ResizeObserver(() => {
    for (const plot of plots) {
      const box = document.getElementById(plot.id);
      if (box.clientWidth) plot.drawn?.setSize({ width: box.clientWidth, height: box.clientHeight });
    }
  }).observe(section);
  dark.addEventListener("change", () => {
    for (const plot of plots) {
      plot.drawn?.destroy();
      plot.drawn = null;
    }
    draw();
  });
})();
