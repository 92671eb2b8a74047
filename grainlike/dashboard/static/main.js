// The frame: navigation, figures, state of the connection; and which view a path means.

import { clusterView } from "./view_cluster.js";
import { colours, fitted, h, say, themeChanged } from "./dom.js";
import { brief, rate, seconds } from "./format.js";
import { historyView, jobsView } from "./view_jobs.js";
import { jobView } from "./view_job.js";
import { limitsView, poolsView, queueView, workersView } from "./view_tables.js";
import { Live, ask } from "./live.js";
import { timelineView } from "./view_timeline.js";
import { usageView } from "./view_usage.js";

const PAGES = [
  ["/", "Cluster", clusterView],
  ["/queue", "Queue", queueView],
  ["/jobs", "Jobs", jobsView],
  ["/history", "History", historyView],
  ["/usage", "Usage", usageView],
  ["/timeline", "Timeline", timelineView],
  ["/workers", "Workers", workersView],
  ["/pools", "Pools", poolsView],
  ["/limits", "Limits", limitsView],
];
const RATES = 180;

/** Pages to which figures lead. */
const LEADS = { failed: "/history?show=failed" };

const live = new Live();
const view = h("main", { id: "view", tabindex: "0", "aria-label": "Page" });
const links = new Map();
const figures = new Map();
const rates = [];
let shown = null;

// --- navigation ----------------------------------------------------------------------------------------------------

function navigation() {
  const nav = h("nav", { class: "nav", "aria-label": "Pages" });
  for (const [path, title] of PAGES) {
    const number = h("span", { class: "count" });
    const link = h("a", { href: path }, h("span", { text: title }), number);
    links.set(path, { link, number });
    nav.append(link);
  }
  return nav;
}

/** Scroll a phone's row of links to one of them, without moving the place from which Tab goes on. */
function keepInSight(link) {
  const row = link.parentNode;
  row.scrollLeft = link.offsetLeft - row.offsetLeft - (row.clientWidth - link.offsetWidth) / 2;
}

function go(path, { push = true } = {}) {
  if (push) history.pushState(null, "", path);
  show();
  view.scrollTop = 0;
  view.focus({ preventScroll: true });
}

function show() {
  const path = location.pathname;
  const job = /^\/job\/(\d+)$/.exec(path);
  const [, title, make] = job ? ["", `Job ${job[1]}`, jobView] : (PAGES.find(([at]) => at === path) ?? PAGES[0]);
  shown?.close?.();
  view.replaceChildren();
  for (const [at, { link }] of links) {
    if (at === path) {
      link.setAttribute("aria-current", "page");
      keepInSight(link);
    } else link.removeAttribute("aria-current");
  }
  document.title = `${title} · grainlike`;
  const banner = h("div", { class: "banner", role: "alert", hidden: true });
  view.append(banner);
  shown = make({ live, view, go, job: job ? Number(job[1]) : null });
  shown.banner = banner;
  view.append(...shown.nodes);
  live.follow(shown.topic ?? "");
  status();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href^='/']");
  if (!link || link.hasAttribute("download") || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  go(link.getAttribute("href"));
});
window.addEventListener("popstate", () => go(null, { push: false }));

// --- figures -------------------------------------------------------------------------------------------------------

function figure(name, title, ...more) {
  const path = LEADS[name];
  const value = path ? h("a", { id: `${name}-value`, href: path, text: "–", "aria-labelledby": `${name}-title ${name}-value` }) : h("span", { text: "–" });
  const note = h("small");
  const box = h("div", { class: "figure" }, h("dt", { id: `${name}-title`, text: title }), h("dd", {}, value, note, ...more));
  figures.set(name, { box, value, note, more });
  return box;
}

const meter = () => h("span", { class: "meter", "aria-hidden": "true" }, h("i"));
const spark = h("canvas", { "aria-hidden": "true" });

function strip() {
  return h(
    "dl",
    { class: "figures" },
    figure("running", "Running"),
    figure("waiting", "Waiting"),
    figure("rate", "Jobs/s", spark),
    figure("done", "Done"),
    figure("failed", "Failed"),
    figure("cores", "Cores", meter()),
    figure("gpus", "GPUs", meter()),
  );
}

function set(name, text, note = "") {
  const { value, note: small } = figures.get(name);
  say(value, text);
  say(small, note);
}

function showFigures() {
  const f = live.figures;
  if (!f) return;
  const running = f.jobs.running ?? 0;
  const unended = Object.values(f.jobs).reduce((sum, number) => sum + number, 0);
  say(up, `up ${seconds(f.up)}`);
  set("running", brief(running));
  set("waiting", brief(unended - running));
  set("rate", rate(f.rate));
  const [done, failed, late] = f.done ?? [0, 0, 0];
  set("done", brief(done));
  set("failed", brief(failed + late), f.bad ? `${rate(f.bad)}/s` : "");
  figures.get("failed").box.classList.toggle("bad", failed + late > 0);
  for (const name of ["cores", "gpus"]) {
    const [busy, all] = f[name];
    figures.get(name).box.hidden = name === "gpus" && all === 0;
    set(name, brief(busy), `of ${brief(all)}`);
    figures.get(name).more[0].firstChild.style.transform = `scaleX(${all ? busy / all : 0})`;
  }
  for (const [path, number] of [["/queue", f.jobs.queued], ["/jobs", unended], ["/workers", f.workers]]) {
    say(links.get(path).number, number ? brief(number) : "");
  }
  rates.push(f.rate);
  if (rates.length > RATES) rates.shift();
  showRates();
}

function showRates() {
  const width = spark.clientWidth, height = spark.clientHeight;
  if (!width) return;
  const context = fitted(spark, width, height);
  const top = Math.max(...rates, 1);
  context.strokeStyle = colours().accent;
  context.lineWidth = 1.5;
  context.beginPath();
  rates.forEach((value, at) => context.lineTo(width - (rates.length - 1 - at) * (width / RATES), height - 2 - (value / top) * (height - 4)));
  context.stroke();
}

// --- connection ----------------------------------------------------------------------------------------------------

const state = h("span", { class: "status still", role: "status", text: "Connecting" });
const about = h("div", { class: "facts" });
const up = h("div");

function status() {
  const why = live.away || live.lost;
  state.className = `status${why ? " away" : live.figures ? "" : " still"}`;
  say(state, why ? "No head" : live.figures ? "Live" : "Connecting");
  if (!shown?.banner) return;
  shown.banner.hidden = !why;
  shown.banner.replaceChildren();
  if (why) {
    const words = live.away ? "" : " What is shown is what it said last; it is asked again every second.";
    shown.banner.append(h("strong", { text: live.away ? "No connection. " : "The head is not there. " }), why + words);
  }
  if (!why && about.childElementCount === 0) identify();
}

async function identify() {
  const { found } = await ask("/api/head").catch(() => ({ found: null }));
  if (found === null) return;
  about.replaceChildren(
    h("strong", { text: found.cluster }),
    h("div", { text: `grainlike ${found.version}, Python ${found.python}` }),
    h("div", { text: `process ${found.pid}` }),
    up,
    h("div", { text: found.journal ? `journal: ${found.journal}` : "no journal" }),
  );
}

// --- theme ---------------------------------------------------------------------------------------------------------

const dark = window.matchMedia("(prefers-color-scheme: dark)");

function chosen() {
  try {
    return localStorage.getItem("theme");
  } catch {
    return null;
  }
}

function paint() {
  const theme = chosen() ?? (dark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  say(switcher, theme === "dark" ? "Light" : "Dark");
  switcher.setAttribute("aria-label", `Show ${theme === "dark" ? "light" : "dark"} colours`);
  themeChanged();
  window.dispatchEvent(new Event("theme"));
}

const switcher = h("button", {
  class: "theme",
  type: "button",
  onclick: () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("theme", next);
    } catch { /* it holds until the page is closed */ }
    document.documentElement.dataset.theme = next;
    paint();
  },
});
dark.addEventListener("change", paint);

// --- all of it -----------------------------------------------------------------------------------------------------

document.getElementById("app").append(
  h(
    "header",
    { class: "side" },
    h("a", { class: "brand", href: "/" }, h("img", { src: "/static/icon.svg", alt: "" }), "grainlike"),
    navigation(),
    h("div", { class: "about" }, about, switcher),
  ),
  h("section", { class: "top", "aria-label": "Figures of the head" }, strip(), state),
  view,
);
live.addEventListener("figures", () => {
  const first = rates.length === 0;
  showFigures();
  status();
  const current = links.get(location.pathname)?.link;
  if (first && current) keepInSight(current); // its neighbours have got their numbers, and it has moved
});
live.addEventListener("status", () => {
  if (live.lost) about.replaceChildren();
  status();
});
window.addEventListener("theme", showRates);
paint();
show();
