"use strict";

/* Shared by the parts: reading data, making elements, and the address. All texts are set as text, never as markup. */

/* Parts that scripts draw: what starts one, by its section's id. REDRAWS draws it from new data, by the data's id; a live
   page calls it, and loads itself again where new data have none. */
const PARTS = new Map();
const REDRAWS = new Map();

/* Packed data are a value and its long texts, whose numbers stand in the value. Objects have no prototype, so that an agent
   may be called "constructor". */
function parsePacked(json) {
  const { value, texts } = JSON.parse(json);
  const restore = (part) => {
    if (Array.isArray(part)) return part.map(restore);
    if (part === null || typeof part !== "object") return part;
    if (Number.isInteger(part.$text)) return texts[part.$text];
    return Object.assign(Object.create(null), Object.fromEntries(Object.entries(part).map(([key, inside]) => [key, restore(inside)])));
  };
  return restore(value);
}

const readData = (id) => parsePacked(document.getElementById(id).textContent);
const byId = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

function make(name, given = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (key === "text") element.textContent = value;
    else if (key === "onclick") element.addEventListener("click", value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function draw(name, given = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(given)) {
    if (key === "text") element.textContent = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/* Puts children into an element unless it has the same: then a reader's selection stays, and nothing is read out again. */
function fill(element, children) {
  if (make("div", {}, ...children).innerHTML !== element.innerHTML) element.replaceChildren(...children);
}

const formatGain = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(2);
const formatInterval = ({ value, low, high }) => `${formatGain(value)} [${formatGain(low)}, ${formatGain(high)}]`;
const formatNumber = (value) => value.toLocaleString("en", { maximumFractionDigits: 1 });
const formatCost = (calls, tokens) => `${formatNumber(calls)} ${calls === 1 ? "call" : "calls"}, ${formatNumber(tokens)} tokens`;

/* The address holds what is shown, as #version=2&agent=plan or #task=t1&at=0/test/after. */
function readAddress() {
  return new URLSearchParams(location.hash.slice(1));
}

function writeAddress(values) {
  const found = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== null));
  history.replaceState(null, "", `#${found.toString().replaceAll("%2F", "/")}`);
}

function fold(title, ...inside) {
  return make("details", {}, make("summary", {}, ...[title].flat()), ...inside);
}
