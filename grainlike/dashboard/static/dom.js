// Elements from data. Text is always text: nothing that a head says is ever read as markup.

/** Return a new element; `props` are attributes, but `class`, `text` and handlers `onclick`. Falsy children are left out. */
export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") node.className = value;
    else if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child !== undefined && child !== null && child !== false) node.append(child);
  }
  return node;
}

/** Set the text of a node where it differs, so that nothing is drawn anew for nothing. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Return a canvas's context, fitted to its size on the screen and to the screen's pixels. */
export function fitted(canvas, width, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const w = Math.max(1, Math.round(width * ratio)), t = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== w || canvas.height !== t) {
    canvas.width = w;
    canvas.height = t;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

let known = null;

/** Return the colours of the present theme by the names of their tokens. */
export function colours() {
  if (known === null) {
    const style = getComputedStyle(document.documentElement);
    known = new Proxy({}, { get: (cache, name) => (cache[name] ??= style.getPropertyValue(`--${name}`).trim()) });
  }
  return known;
}

/** Forget the colours: the theme has changed. */
export function themeChanged() {
  known = null;
}

/** Return the colour's token of a function by its number. */
export const shade = (number) => `fn-${number % 10}`;
