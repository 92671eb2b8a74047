// Jobs and history: long lists, searched and sent page by page by the server.

import { h, say } from "./dom.js";
import { amounts, bytes, count, moment, seconds, words } from "./format.js";
import { Table, empty, full, jobLink } from "./table.js";
import { again, ask } from "./live.js";

const PAGE = 200;
const MOST = 100_000;
const TYPING_MS = 250;

const tag = (state) => h("span", { class: `tag ${state}`, text: words(state) });

/** A view of a long list. `path(query, cursor)` is what a page of it is asked by; `cursor` is in the answers. */
function listed({ view }, { title, table, filters, query, path, cursor, total, nothing }) {
  const note = h("span", { class: "note", role: "status" });
  const place = h("div", {}, table.node);
  let rows = [];
  let next = 0;
  let turn = 0;
  let loading = false;

  function show(found) {
    say(note, total(found));
    table.show(rows);
    const shown = rows.length ? table.node : nothing();
    if (place.firstChild !== shown) place.replaceChildren(shown);
  }

  /** Load from the beginning; what is shown stays until that is there. */
  async function load() {
    const mine = (turn += 1);
    const { found, size } = await ask(path(query(), PAGE, 0)).catch(failed);
    if (!found || mine !== turn) return 0;
    rows = found.rows;
    next = found[cursor];
    loading = false;
    show(found);
    return size;
  }

  async function more() {
    if (loading || !next || rows.length >= MOST) return;
    const mine = turn;
    loading = true;
    const { found } = await ask(path(query(), PAGE, next)).catch(failed);
    if (mine !== turn) return;
    loading = false;
    if (!found) return;
    rows = rows.concat(found.rows);
    next = found[cursor];
    show(found);
  }

  function failed(error) {
    say(note, error.message);
    return {};
  }

  function changed() {
    view.scrollTop = 0;
    load();
  }
  table.onend = more;
  filters.onchange = changed;
  const head = h("div", { class: "head" }, h("h1", { text: title }), note, filters.node);
  // Whoever has scrolled reads: the list moves under nobody.
  const stop = again(async () => (view.scrollTop < 8 ? load() : 0));
  return {
    nodes: [head, place],
    close() {
      turn += 1;
      stop();
      table.close();
    },
  };
}

/** Search by name, and one choice of several; they stay in the address, which can be kept and sent. */
function filtersOf(name, choices) {
  const given = new URLSearchParams(location.search);
  const filters = { name: given.get("name") ?? "", choice: given.get("show") ?? choices[0][0], onchange: null };
  let timer = 0;

  function changed() {
    const kept = new URLSearchParams();
    if (filters.name) kept.set("name", filters.name);
    if (filters.choice !== choices[0][0]) kept.set("show", filters.choice);
    history.replaceState(null, "", `${location.pathname}${kept.size ? `?${kept}` : ""}`);
    filters.onchange?.();
  }
  const input = h("input", {
    type: "search",
    "aria-label": name,
    placeholder: "Name, or pattern: fit*",
    value: filters.name,
    spellcheck: "false",
    oninput: () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        filters.name = input.value.trim();
        changed();
      }, TYPING_MS);
    },
  });
  const buttons = choices.map(([choice, title]) =>
    h("button", {
      type: "button",
      text: title,
      "aria-pressed": String(choice === filters.choice),
      onclick: () => {
        filters.choice = choice;
        buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(choices[at][0] === choice)));
        changed();
      },
    }),
  );
  filters.node = h("div", { class: "filters" }, input, h("div", { class: "segments", role: "group", "aria-label": "Show" }, ...buttons));
  return filters;
}

export function jobsView(app) {
  const filters = filtersOf("Search running and waiting jobs by name", [["", "All"], ["running", "Running"], ["assigned", "Assigned"], ["queued", "Queued"]]);
  const table = new Table({
    label: "Jobs that have not ended, the oldest first",
    scroller: app.view,
    columns: [
      { title: "Job", width: "64px", narrow: "52px", cell: (row) => jobLink(row.job) },
      { title: "Function", width: "minmax(120px, 1.6fr)", narrow: "minmax(0, 1fr)", cell: (row) => full(row.named ? `${row.name} (${row.named})` : row.name) },
      { title: "State", width: "92px", narrow: "82px", cell: (row) => tag(row.state) },
      { title: "Runs for", width: "96px", narrow: "72px", num: true, cell: (row) => seconds(row.running_s) },
      { title: "Worker", width: "minmax(90px, 1fr)", below: true, dim: true, cell: (row) => full(row.worker || "on no worker yet") },
      { title: "Slots", width: "minmax(90px, 1fr)", extra: true, cell: (row) => h("span", { class: "mono", text: row.allocation || "–", title: row.allocation || null }) },
      { title: "Asks for", width: "minmax(100px, 1fr)", wide: true, cell: (row) => h("span", { class: "mono", text: amounts(row.request), title: row.request }) },
      { title: "Attempt", width: "60px", extra: true, num: true, cell: (row) => String(row.attempt || "–") },
      { title: "Program", width: "minmax(80px, 0.8fr)", extra: true, dim: true, cell: (row) => full(row.program || (row.client ? `client ${row.client}` : "")) },
    ],
  });
  return listed(app, {
    title: "Jobs",
    table,
    filters,
    query: () => new URLSearchParams({ name: filters.name, state: filters.choice }),
    path: (query, most, after) => `/api/jobs?${query}&most=${most}&after=${after}`,
    cursor: "next",
    total: (found) => `${count(found.total)} have not ended`,
    nothing: () => (filters.name || filters.choice ? empty("No such jobs", "None that has not ended is called so, or in that state.") : empty("No jobs now", "Those that have ended are in the history.")),
  });
}

/** The error; on a phone also where it was, which has no column there. */
function errorOf(row) {
  const where = h("span", { class: "where dim", text: row.worker ? `on ${row.worker} ` : "" });
  return h("span", { title: row.error || null }, where, h("span", { class: "error-text", text: row.error }));
}

const OUTCOMES = { failed: ["failed", "timed_out"], succeeded: ["succeeded"], cancelled: ["cancelled", "skipped"] };

export function historyView(app) {
  const filters = filtersOf("Search ended jobs by name", [["", "All"], ["failed", "Failed"], ["succeeded", "Succeeded"], ["cancelled", "Cancelled"]]);
  const table = new Table({
    label: "Jobs that have ended, the latest first",
    scroller: app.view,
    columns: [
      { title: "Job", width: "64px", narrow: "52px", cell: (row) => jobLink(row.job) },
      { title: "Function", width: "minmax(110px, 1.2fr)", narrow: "minmax(0, 1fr)", cell: (row) => full(row.name) },
      { title: "Outcome", width: "96px", narrow: "92px", cell: (row) => tag(row.outcome) },
      { title: "Ran", width: "88px", narrow: "72px", num: true, cell: (row) => seconds(row.ran_s) },
      { title: "Waited", width: "84px", extra: true, num: true, cell: (row) => seconds(row.queued_s) },
      { title: "Memory", width: "80px", extra: true, num: true, cell: (row) => bytes(row.peak_memory) },
      { title: "Worker", width: "minmax(80px, 0.8fr)", wide: true, cell: (row) => full(row.worker) },
      { title: "Tries", width: "48px", extra: true, num: true, cell: (row) => String(row.attempts) },
      { title: "Ended", width: "84px", wide: true, num: true, cell: (row) => moment(row.ended_at) },
      { title: "Error", width: "minmax(120px, 1.8fr)", below: true, cell: errorOf },
    ],
  });
  return listed(app, {
    title: "History",
    table,
    filters,
    query: () => new URLSearchParams([["name", filters.name], ...(OUTCOMES[filters.choice] ?? []).map((outcome) => ["outcome", outcome])]),
    path: (query, most, before) => `/api/history?${query}&most=${most}&before=${before}`,
    cursor: "before",
    total: (found) => `the last ${count(found.kept)} that have ended`,
    nothing: () => (filters.name || filters.choice ? empty("No such jobs", "Of those that the head remembers, none is called so or ended so.") : empty("No job has ended yet", "The head remembers the last 100,000.")),
  });
}
