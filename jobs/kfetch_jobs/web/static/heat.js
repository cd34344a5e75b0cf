// How far behind each partition is, as a field of cells: one for each, also of ten thousand. The
// colours are powers of ten, so they mean the same on every day and for every job.
"use strict";
(() => {
  const section = document.getElementById("heat");
  const topics = document.getElementById("heat-topics"), line = document.getElementById("heat-told");
  const NAMES = ["0", "1", "10", "100", "1 k", "10 k", "100 k", "1 M"];
  const LIGHT_TEXT_FROM = 4;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const level = (behind) => (behind <= 0 ? 0 : Math.min(NAMES.length - 1, 1 + Math.floor(Math.log10(behind) + 1e-9)));
  const HINT = "Point at a cell for its partition, or go there with Tab and the arrow keys.";
  let told = null, fields = [];

  const legend = document.getElementById("heat-legend");
  for (const [index, name] of NAMES.entries()) {
    const item = document.createElement("li"), swatch = document.createElement("i");
    swatch.className = `swatch heat-${index}`;
    item.append(swatch, index > 0 ? `${name}+` : "0 behind");
    legend.append(item);
  }

  // As large as fits a screen, and never so small that they can't be told apart.
  const HEIGHT = 440, SIZES = [30, 22, 15, 12, 10, 8, 7, 6];
  const across = (size) => Math.max(1, Math.floor(topics.clientWidth / size));
  const sizeOf = (cells) => SIZES.find((size) => Math.ceil(cells / across(size)) * size <= HEIGHT) ?? 5;

  const say = (field, index) => {
    const { topic } = field;
    const behind = topic.behind[index];
    const state = behind > 0
      ? `${behind.toLocaleString("en")} behind, waiting ${topic.waiting_s[index].toLocaleString("en")} s at least`
      : "read to its end";
    line.textContent = `${topic.topic}-${topic.partitions[index]}: ${state}`;
  };

  const draw = (field) => {
    const { canvas, topic, size } = field, ratio = devicePixelRatio || 1;
    const columns = Math.min(across(size), topic.partitions.length);
    const rows = Math.ceil(topic.partitions.length / columns);
    field.columns = columns;
    canvas.width = columns * size * ratio;
    canvas.height = rows * size * ratio;
    canvas.style.width = `${columns * size}px`;
    const ctx = canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    const colours = NAMES.map((_, index) => colour(`--h${index}`));
    const gap = size >= 10 ? 2 : 1, dark = matchMedia("(prefers-color-scheme: dark)").matches;
    ctx.font = "11px system-ui";
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    topic.behind.forEach((behind, index) => {
      const x = (index % columns) * size, y = Math.floor(index / columns) * size, of = level(behind);
      ctx.fillStyle = colours[of];
      ctx.beginPath();
      ctx.roundRect(x, y, size - gap, size - gap, size >= 20 ? 4 : size >= 10 ? 2 : 0);
      ctx.fill();
      if (size >= 30) {
        ctx.fillStyle = of >= LIGHT_TEXT_FROM ? (dark ? "#10151c" : "#fff") : colour("--ink");
        ctx.fillText(topic.partitions[index], x + (size - gap) / 2, y + (size - gap) / 2 + 0.5);
      }
    });
    if (field.at !== null && field.at < topic.partitions.length) {
      ctx.strokeStyle = colour("--accent");
      ctx.lineWidth = 2;
      ctx.strokeRect((field.at % columns) * size, Math.floor(field.at / columns) * size, size - gap, size - gap);
    }
  };

  const choose = (field, index) => {
    if (index < 0 || index >= field.topic.partitions.length || index === field.at) return;
    field.at = index;
    draw(field);
    say(field, index);
  };
  const leave = (field) => {
    field.at = null;
    draw(field);
    line.textContent = HINT;
  };

  const made = (topic) => {
    const box = document.createElement("div"), head = document.createElement("h3"), canvas = document.createElement("canvas");
    box.className = "heat";
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    box.append(head, canvas);
    topics.append(box);
    const field = { topic, box, head, canvas, at: null, size: 30, columns: 1 };
    canvas.addEventListener("pointermove", (event) => {
      const x = Math.floor(event.offsetX / field.size), y = Math.floor(event.offsetY / field.size);
      if (x < field.columns) choose(field, y * field.columns + x);
    });
    canvas.addEventListener("pointerleave", () => leave(field));
    canvas.addEventListener("blur", () => leave(field));
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: field.columns, ArrowUp: -field.columns }[event.key];
      if (!step) return;
      event.preventDefault();
      choose(field, field.at === null ? 0 : field.at + step);
    });
    return field;
  };

  const show = () => {
    const cells = told.topics.reduce((sum, topic) => sum + topic.partitions.length, 0);
    section.querySelector(".empty").hidden = cells > 0;
    legend.hidden = line.hidden = cells === 0;
    line.textContent ||= HINT;
    while (fields.length > told.topics.length) fields.pop().box.remove();
    told.topics.forEach((topic, index) => {
      const field = (fields[index] ??= made(topic));
      const behind = topic.behind.filter((offsets) => offsets > 0).length;
      field.topic = topic;
      field.size = sizeOf(cells);
      const number = topic.partitions.length.toLocaleString("en");
      const words = `${topic.topic}: ${number} partition${topic.partitions.length === 1 ? "" : "s"}, ${behind ? `${behind.toLocaleString("en")} behind` : "none behind"}`;
      field.head.textContent = words;
      field.canvas.setAttribute("aria-label", `${words}. The arrow keys show each partition.`);
      draw(field);
      if (field.at !== null) say(field, field.at);
    });
  };

  follow(4000, () => section.dataset.partitions, (fresh) => {
    told = fresh;
    show();
  });
  let width = section.clientWidth;
  new ResizeObserver(() => {
    if (told && section.clientWidth !== width) show();
    width = section.clientWidth;
  }).observe(section);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => told && fields.forEach(draw));
})();
