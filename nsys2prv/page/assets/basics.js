"use strict";
/* What all scripts of the page share: its data, elements, numbers, ticks, colors, and the tooltip. */
const data = JSON.parse(document.getElementById("data").textContent);
const byId = id => document.getElementById(id);

/* Every text of a report is set as text, never as HTML. */
function element(tag, parent, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = text;
  if (className) made.className = className;
  if (parent) parent.append(made);
  return made;
}

function button(parent, text, label, act) {
  const made = element("button", parent, text);
  made.type = "button";
  if (label) made.setAttribute("aria-label", label);
  made.addEventListener("click", act);
  return made;
}

function checkbox(parent, text, on, act) {
  const label = element("label", parent), box = element("input", label);
  box.type = "checkbox";
  box.checked = on;
  label.append(text);
  box.addEventListener("change", () => act(box.checked));
  return box;
}

const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
const ms = ns => (ns / 1e6).toFixed(3) + " ms";
const counted = (count, what) => `${count.toLocaleString("en-US")} ${what}${count === 1 ? "" : "s"}`;

/* A length of time in the unit that fits it. */
function lasting(ns) {
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 1e6) return `${+(ns / 1e3).toPrecision(4)} us`;
  if (ns < 1e9) return `${+(ns / 1e6).toPrecision(4)} ms`;
  return `${+(ns / 1e9).toPrecision(4)} s`;
}

/* Times between two that are round: 1, 2 or 5 times a power of ten apart, at most `most` of them. */
function ticks(from, to, most) {
  const least = (to - from) / Math.max(most, 1), power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  const step = Math.max(1, [1, 2, 5, 10].map(times => times * power).find(size => size >= least));
  const found = [];
  for (let n = Math.ceil(from / step); n * step <= to; n++) found.push(n * step);
  return { step, times: found };
}

/* A tick in the unit of its step, without digits that are all 0. */
function tickText(time, step, to) {
  const [unit, name] = to >= 1e10 && step >= 1e7 ? [1e9, "s"] : to >= 1e4 ? [1e6, "ms"] : [1e3, "us"];
  return (time / unit).toFixed(clamp(Math.ceil(-Math.log10(step / unit) - 1e-9), 0, 6)) + " " + name;
}

/* The index of the first of ascending numbers that is above `value`. */
function above(sorted, value, low = 0, high = sorted.length) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] > value) high = middle; else low = middle + 1;
  }
  return low;
}

const rgb = hex => [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16));
/* A pixel of ImageData as one number (little endian, as all machines with a browser are). */
const pixel = hex => { const [red, green, blue] = rgb(hex); return (255 << 24 | blue << 16 | green << 8 | red) >>> 0; };

function themeColor(name) {
  const value = getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  return value.length === 4 ? "#" + [...value.slice(1)].map(digit => digit + digit).join("") : value;
}

/* A canvas in device pixels, so that lines are sharp. */
function fitted(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = height + "px";
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  return context;
}

/* A text cut to a width, with an ellipsis where something is left out. */
function cut(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let most = text.length;
  while (most > 0 && context.measureText(text.slice(0, most) + "\u2026").width > width) most -= most > 24 ? 8 : 1;
  return most > 0 ? text.slice(0, most) + "\u2026" : "";
}

const tip = {
  show(text, x, y) {
    const made = byId("tip");
    made.textContent = text;
    made.hidden = false;
    const { width, height } = made.getBoundingClientRect();
    made.style.left = clamp(x + 14, 4, Math.max(4, innerWidth - width - 4)) + "px";
    made.style.top = (y + 18 + height > innerHeight ? y - height - 10 : y + 18) + "px";
  },
  hide() { byId("tip").hidden = true; },
};

/* The same from many events in one frame runs once. */
function onceAFrame(act) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; act(); });
  };
}
