// Keeps the page current: says "look" every two seconds, tells how old it is, and shows the state in
// the tab. The fragments are htmx's business; nothing here writes HTML.
"use strict";
(() => {
  const EVERY_MS = 2000, AWAY_MS = 9000, NOTICE_MS = 7000;
  let heard = Date.now();

  const look = () => {
    if (!document.hidden) document.body.dispatchEvent(new Event("look"));
  };
  setInterval(look, EVERY_MS);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    heard = Math.max(heard, Date.now() - AWAY_MS + EVERY_MS); // a tab that slept is not cut off
    look();
  });

  document.addEventListener("htmx:after:request", (event) => {
    if (event.detail.ctx.response.status < 400) heard = Date.now();
  });
  document.addEventListener("htmx:after:swap", () => {
    const state = document.getElementById("state");
    if (!state) return;
    document.title = state.dataset.title;
    const icon = document.querySelector("link[rel=icon]");
    const tone = ["bad", "warn", "good"].includes(state.dataset.tone) ? state.dataset.tone : "idle";
    const href = `/static/icon-${tone}.svg`;
    if (icon.getAttribute("href") !== href) icon.setAttribute("href", href);
  });
  // An order that was refused says why in its answer, which is not swapped in.
  document.addEventListener("htmx:response:error", (event) => {
    const { request, text } = event.detail.ctx;
    if (request.method === "POST") tell(text || "It could not be done.");
  });
  document.addEventListener("htmx:error", (event) => {
    if (event.detail.ctx?.request.method === "POST") tell("The supervisor does not answer.");
  });

  const notice = document.getElementById("notice");
  const tell = (text) => {
    const line = document.createElement("p");
    line.className = "wrong";
    line.textContent = text.trim();
    notice.replaceChildren(line);
  };
  let clearing;
  new MutationObserver(() => {
    clearTimeout(clearing);
    if (notice.childElementCount) clearing = setTimeout(() => notice.replaceChildren(), NOTICE_MS);
  }).observe(notice, { childList: true });

  const away = document.getElementById("away");
  setInterval(() => {
    const gone = !document.hidden && Date.now() - heard > AWAY_MS;
    if (gone === !away.hidden) return;
    away.hidden = !gone;
    const since = new Date(heard).toISOString().slice(11, 19);
    away.textContent = gone ? `The supervisor has not answered since ${since} UTC. This page shows the state of that time.` : "";
  }, 1000);

  // For plots and the heat map: JSON every few seconds while somebody can see it.
  window.follow = (everyMs, url, show) => {
    let busy = false;
    const ask = async () => {
      if (busy || document.hidden) return;
      busy = true;
      try {
        const asked = url();
        const answer = await fetch(asked, { headers: { Accept: "application/json" } });
        if (answer.status === 401) location.assign("/login");
        const told = answer.ok ? await answer.json() : null;
        if (told && asked === url()) show(told);
      } catch {
        // The line above says since when nobody answers.
      } finally {
        busy = false;
      }
    };
    setInterval(ask, everyMs);
    document.addEventListener("visibilitychange", ask);
    ask();
    return ask;
  };

  window.figure = (value, digits = 1) => {
    if (value === null || value === undefined) return "–";
    for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
      if (Math.abs(value) >= size) return `${+(value / (unit === "k" ? 1e3 : size)).toFixed(digits)}\u202f${unit}`;
    }
    return value.toLocaleString("en", { maximumFractionDigits: Math.abs(value) < 10 ? 1 : 0 });
  };
})();
