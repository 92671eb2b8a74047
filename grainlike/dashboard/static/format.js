// Numbers, times and amounts as text.

const whole = new Intl.NumberFormat("en");

export const count = (number) => whole.format(number ?? 0);

/** 1 234 567 as "1.23M", where there is little room. */
export function brief(number) {
  if (number < 10_000) return count(number);
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (number >= size) return `${(number / size).toPrecision(3)}${unit}`;
  }
  return count(number);
}

export function rate(number) {
  return number >= 100 ? brief(Math.round(number)) : number >= 10 ? number.toFixed(0) : number.toFixed(1);
}

/** Seconds as "0.35 ms", "350 ms", "4.2 s", "3 min 20 s", "2 h 5 min", "3 d 4 h". */
export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value > 0 && value < 0.00995) return `${Number((value * 1000).toPrecision(2))} ms`;
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value < 10 ? value.toFixed(1) : Math.round(value)} s`;
  const s = Math.round(value);
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function bytes(value) {
  if (!value) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${value >= 100 || at === 0 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}

/** A request or an allocation with its memory as people write it: `memory=50Mi` for `memory=52428800`. */
export function amounts(text) {
  return String(text ?? "").replace(/\bmemory=(\d+)(?![\w.])/g, (whole, size) => Number(size) < 1024 ? whole : `memory=${bytes(Number(size)).replace(/\.0(?= )/, "").replace(" ", "").replace("iB", "i")}`);
}

/** A moment in seconds since 1970, as "14:03:22", with the day where that is another. */
export function moment(at) {
  const date = new Date(at * 1000);
  const time = date.toLocaleTimeString("en-GB");
  return date.toDateString() === new Date().toDateString() ? time : `${date.toISOString().slice(0, 10)} ${time}`;
}

export const words = (name) => String(name).replaceAll("_", " ");
export const many = (number, one, others = `${one}s`) => `${count(number)} ${number === 1 ? one : others}`;
