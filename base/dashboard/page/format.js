// Numbers as people read them, and elements from plain data. Whatever comes from the server becomes
// text, never markup.

export function seconds(value) {
  if (value === null || value === undefined || !(value >= 0)) return '–';
  if (value < 1e-3) return `${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${trim(value * 1e3)} ms`;
  if (value < 120) return `${trim(value)} s`;
  return `${Math.round(value / 60)} min`;
}

function trim(value) {
  if (value >= 100) return String(Math.round(value));
  return value.toFixed(value >= 10 ? 1 : 2);
}

export function bytes(value) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (value >= 1000 && unit + 1 < units.length) {
    value /= 1000;
    ++unit;
  }
  return `${unit === 0 ? value : trim(value)} ${units[unit]}`;
}

export function count(value) {
  return Math.round(value).toLocaleString('en-US').replaceAll(',', '\u202f');
}

export function percent(share) {
  return `${Math.round(share * 100)} %`;
}

export function clockTime(unixMs) {
  return new Date(unixMs).toLocaleTimeString('en-GB');
}

// `attributes`: `class`, `aria-label`, ...; a function is a listener; null and false are left out.
export function element(name, attributes = {}, ...children) {
  return build(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return build(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children);
}

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// Names as people order them: team2 before team10.
export const inOrder = new Intl.Collator('en', {numeric: true}).compare;

// An engine's address without what all of them begin with.
export function place(url) {
  return url.replace(/^https?:\/\//, '');
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function byId(id) {
  return document.getElementById(id);
}

// A bar of parts [{share, class, title}]; the same elements are kept.
export function fillBar(bar, parts) {
  while (bar.children.length > parts.length) bar.lastChild.remove();
  parts.forEach((part, i) => {
    const node = bar.children[i] ?? bar.appendChild(element('i'));
    node.className = part.class;
    node.title = part.title ?? '';
    node.style.width = `${(100 * part.share).toFixed(2)}%`;
  });
}
