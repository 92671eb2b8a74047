// Jobs and history: long lists, searched and sent page by page by the server.

import { h, say } from "./dom.js";
import { amounts, brief, bytes, count, many, moment, seconds, words } from "./format.js";
import { Table, empty, full, jobLink } from "./table.js";
import { again, ask } from "./live.js";

const PAGE = 200;
const MOST = 100_000;
const TYPING_MS = 250;

/** Milliseconds between two counts of failures, and bytes that one counts as: 10 000 take a fifth of a second. */
const COUNTED_MS = 10_000;
const WEIGHT = 200_000;

const tag = (state) => h("span", { class: `tag ${state}`, text: words(state) });

/**
 * A view of a long list. `path(query, most, cursor)` is what a page of it is asked by; `cursor` is in the answers.
 * `tables` are those that may be shown, and `pick()` is which of them is now. `weight()` is what an answer counts as at
 * least, in bytes: what takes the head long is asked for seldom.
 */
function listed({ view }, { title, tables, pick = () => 0, filters, query, path, cursor, total, nothing, weight = () => 0 }) {
  const note = h("span", { class: "note", role: "status" });
  const place = h("div", {}, tables[pick()].node);
  let rows = [];
  let next = 0;
  let asked = 0; // number of the last question from the beginning
  let turn = 0; // number of that whose rows are shown
  let loading = false;

  function show(found) {
    const table = tables[pick()];
    say(note, total(found));
    table.show(rows);
    const shown = rows.length ? table.node : nothing();
    if (place.firstChild !== shown) place.replaceChildren(shown);
  }

  /** Load from the beginning; what is shown stays until that is there. */
  async function load() {
    const mine = (asked += 1);
    const { found, size } = await ask(path(query(), PAGE, 0)).catch(failed);
    if (!found || mine !== asked) return 0;
    turn = mine; // a page that was asked for meanwhile would follow other rows
    rows = found.rows;
    next = found[cursor];
    loading = false;
    show(found);
    return Math.max(size, weight());
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
  for (const table of tables) table.onend = more;
  filters.onchange = changed;
  const head = h("div", { class: "head" }, h("h1", { text: title }), note, filters.node);
  // Whoever has scrolled reads: the list moves under nobody.
  const stop = again(async () => (view.scrollTop < 8 ? load() : 0));
  return {
    nodes: [head, place],
    close() {
      asked += 1;
      turn = asked;
      stop();
      for (const table of tables) table.close();
    },
  };
}

const NAMES = { key: "name", placeholder: "Name, or pattern: fit*" };

/**
 * Searches by text, and one choice of several; they stay in the address, which can be kept and sent. Each of `inputs`
 * is `key`, `label` and `placeholder`.
 */
function filtersOf(inputs, choices) {
  const given = new URLSearchParams(location.search);
  const filters = { choice: given.get("show") ?? choices[0][0], onchange: null };
  for (const { key } of inputs) filters[key] = given.get(key) ?? "";
  let timer = 0;

  function changed() {
    const kept = new URLSearchParams();
    for (const { key } of inputs) if (filters[key]) kept.set(key, filters[key]);
    if (filters.choice !== choices[0][0]) kept.set("show", filters.choice);
    history.replaceState(null, "", `${location.pathname}${kept.size ? `?${kept}` : ""}`);
    filters.onchange?.();
  }
  const fields = inputs.map(({ key, label, placeholder }) => {
    const input = h("input", {
      type: "search",
      "aria-label": label,
      placeholder,
      value: filters[key],
      spellcheck: "false",
      oninput: () => {
        clearTimeout(timer);
        timer = setTimeout(() => {
          for (const [at, { key: each }] of inputs.entries()) filters[each] = fields[at].value.trim();
          changed();
        }, TYPING_MS);
      },
    });
    return input;
  });
  const buttons = choices.map(([choice, title]) =>
    h("button", {
      type: "button",
      "aria-pressed": String(choice === filters.choice),
      onclick: () => {
        filters.choice = choice;
        buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(choices[at][0] === choice)));
        changed();
      },
    }, h("span", { text: title }), h("span", { class: "count" })),
  );
  /** Show a number beside a choice. */
  filters.count = (choice, text) => say(buttons[choices.findIndex(([each]) => each === choice)].lastChild, text);
  filters.searched = () => inputs.some(({ key }) => filters[key]);
  filters.node = h("div", { class: "filters" }, ...fields, h("div", { class: "segments", role: "group", "aria-label": "Show" }, ...buttons));
  return filters;
}

export function jobsView(app) {
  const filters = filtersOf([{ ...NAMES, label: "Search running and waiting jobs by name" }], [["", "All"], ["running", "Running"], ["assigned", "Assigned"], ["queued", "Queued"]]);
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
    tables: [table],
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

/** The longest piece of a reason that all errors of its group have. */
const common = (reason) => reason.split("#").reduce((most, piece) => (piece.length > most.length ? piece : most), "").trim();

/** A link to the jobs of a group of alike failures. */
function alike(group) {
  const query = new URLSearchParams({ show: "failed", name: group.name, error: common(group.reason), worker: group.worker });
  return h("a", { href: `/history?${query}`, text: count(group.jobs), "aria-label": `${many(group.jobs, "job")} of ${group.name}` });
}

function reasonsTable(scroller) {
  return new Table({
    label: "Failures by reason, the most frequent first",
    scroller,
    columns: [
      { title: "Jobs", width: "64px", narrow: "52px", cell: alike },
      { title: "Function", width: "minmax(110px, 1fr)", narrow: "minmax(0, 1fr)", cell: (row) => full(row.name) },
      { title: "Worker", width: "minmax(90px, 0.8fr)", narrow: "minmax(0, 1fr)", cell: (row) => full(row.worker) },
      { title: "Latest", width: "72px", narrow: "64px", num: true, cell: (row) => jobLink(row.latest) },
      { title: "Ended", width: "84px", wide: true, num: true, cell: (row) => moment(row.ended_at) },
      { title: "Error", width: "minmax(140px, 3fr)", below: true, cell: (row) => h("span", { class: "error-text", title: row.reason, text: row.reason || "–" }) },
    ],
  });
}

const SEARCHES = [
  { ...NAMES, label: "Search ended jobs by name" },
  { key: "error", label: "Search by text of the error", placeholder: "Text of the error" },
  { key: "worker", label: "Search by worker", placeholder: "Worker" },
];
const CHOICES = [["", "All"], ["failed", "Failed"], ["reasons", "By reason"], ["succeeded", "Succeeded"], ["cancelled", "Cancelled"]];

export function historyView(app) {
  const filters = filtersOf(SEARCHES, CHOICES);
  const query = () => new URLSearchParams({ name: filters.name, error: filters.error, worker: filters.worker });
  const byReason = () => filters.choice === "reasons";
  const table = new Table({
    label: "Jobs that have ended, the latest first",
    scroller: app.view,
    columns: [
      { title: "Job", width: "64px", narrow: "52px", cell: (row) => jobLink(row.job) },
      { title: "Function", width: "minmax(110px, 1.2fr)", narrow: "minmax(0, 1fr)", cell: (row) => full(row.named ? `${row.name} (${row.named})` : row.name) },
      { title: "Outcome", width: "96px", narrow: "92px", cell: (row) => tag(row.outcome) },
      { title: "Ran", width: "88px", narrow: "72px", num: true, cell: (row) => seconds(row.ran_s) },
      { title: "Waited", width: "84px", extra: true, num: true, cell: (row) => seconds(row.queued_s) },
      { title: "Memory", width: "80px", extra: true, num: true, cell: (row) => bytes(row.peak_memory) },
      { title: "Worker", width: "minmax(80px, 0.8fr)", wide: true, told: true, cell: (row) => full(row.worker) },
      { title: "Tries", width: "48px", extra: true, num: true, cell: (row) => String(row.attempts) },
      { title: "Ended", width: "84px", wide: true, num: true, cell: (row) => moment(row.ended_at) },
      { title: "Error", width: "minmax(120px, 1.8fr)", below: true, cell: errorOf },
    ],
  });
  const shown = listed(app, {
    title: "History",
    tables: [table, reasonsTable(app.view)],
    pick: () => (byReason() ? 1 : 0),
    weight: () => (byReason() ? WEIGHT : 0),
    filters,
    query,
    path: (asked, most, before) => {
      if (byReason()) return `/api/failures?${asked}`;
      for (const outcome of OUTCOMES[filters.choice] ?? []) asked.append("outcome", outcome);
      return `/api/history?${asked}&most=${most}&before=${before}`;
    },
    cursor: "before",
    total: (found) => `${byReason() ? failures(found) : ""}the last ${count(found.kept)} that have ended`,
    nothing: () => (filters.searched() || filters.choice ? empty("No such jobs", "Of those that the head remembers, none is called so, ended so, or was there.") : empty("No job has ended yet", "The head remembers the last 100,000.")),
  });
  const stop = counted(app.live, filters, query);
  const { onchange } = filters;
  filters.onchange = () => {
    stop.now();
    onchange();
  };
  return { ...shown, close: () => [shown, stop].forEach((each) => each.close()) };
}

/** Counts of failures, for a note. */
const failures = ({ jobs, more }) => `${more ? "the latest " : ""}${many(jobs, "failure")} of `;

/** Keep the number of failures that the filters let through beside their choice: counted anew when more have failed. */
function counted(live, filters, query) {
  let told = null;
  let turn = 0;
  let timer = 0;

  async function now() {
    clearTimeout(timer);
    timer = 0;
    const mine = (turn += 1);
    const { found } = await ask(`/api/failures?${query()}`).catch(() => ({}));
    if (found && mine === turn) filters.count("failed", `${found.more ? "over " : ""}${brief(found.jobs)}`);
  }
  function look() {
    const failed = String(live.figures?.done?.slice(1));
    if (told === null) now();
    else if (failed !== told && !timer) timer = setTimeout(now, COUNTED_MS);
    told = failed;
  }
  live.addEventListener("figures", look);
  look();
  return {
    now,
    close() {
      turn += 1;
      clearTimeout(timer);
      live.removeEventListener("figures", look);
    },
  };
}
