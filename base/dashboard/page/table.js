// The adapters: thousands of rows, of which only those in view are elements.
import {byId, bytes, count, element, inOrder, place, setText, svg} from './format.js';

// Of one line; on a phone a row has two, as in the style sheet.
const kPhone = matchMedia('(max-width: 620px)');
const kRowHeight = 32;
const kPhoneRowHeight = 46;
const kBeyond = 6;  // rows above and below those in view

// `columns`: {name, label, of(row), class, text(row)}; `cells(row)` may make elements instead.
export class VirtualTable {
  constructor(where, label, columns, cells) {
    this.columns = columns;
    this.cells = cells;
    this.rows = [];
    this.shown = new Map();  // index -> element
    this.by = columns[0];
    this.down = false;
    this.heads = columns.map((column) => this.head(column));
    this.body = element('div', {class: 'body', role: 'rowgroup', tabindex: '0', 'aria-label': `${label}, rows`,
                                scroll: () => this.draw()});
    this.space = element('div');
    this.empty = element('div', {class: 'none', role: 'row'}, element('span', {role: 'cell'}, 'None.'));
    this.table = element('div', {class: 'virtual', role: 'table', 'aria-label': label},
        element('div', {role: 'rowgroup'},
                element('div', {class: 'head', role: 'row'}, ...this.heads)), this.body);
    where.replaceChildren(this.table);
    new ResizeObserver(() => this.draw()).observe(this.body);
    kPhone.addEventListener('change', () => this.set(this.rows));
    this.mark();
  }

  get rowHeight() {
    return kPhone.matches ? kPhoneRowHeight : kRowHeight;
  }

  head(column) {
    const content = column.of === undefined ? element('span', {}, column.label)
        : element('button', {type: 'button', 'aria-label': `Sort by ${column.label}`,
                             click: () => this.sortBy(column)}, column.label);
    return element('div', {role: 'columnheader', class: `${column.class ?? ''} ${column.of === undefined ? 'plain' : ''}`}, content);
  }

  sortBy(column) {
    this.down = this.by === column ? !this.down : column.class?.includes('number') ?? false;
    this.by = column;
    this.mark();
    this.set(this.rows);
  }

  mark() {
    this.columns.forEach((column, i) => {
      if (column.of === undefined) return;
      this.heads[i].setAttribute('aria-sort', column !== this.by ? 'none' : this.down ? 'descending' : 'ascending');
    });
  }

  set(rows) {
    const sign = this.down ? -1 : 1;
    const of = this.by.of;
    this.rows = [...rows].sort((a, b) => {
      const left = of(a);
      const right = of(b);
      const order = typeof left === 'string' ? inOrder(left, right) : left - right;
      return order !== 0 ? sign * order : inOrder(a.name, b.name);
    });
    for (const node of this.shown.values()) node.remove();
    this.shown.clear();
    this.table.setAttribute('aria-rowcount', String(this.rows.length + 1));
    this.space.style.height = `${this.rows.length * this.rowHeight}px`;
    this.body.style.height = `${Math.min(12, Math.max(2, this.rows.length)) * this.rowHeight}px`;
    this.body.replaceChildren(this.rows.length === 0 ? this.empty : this.space);
    this.draw();
  }

  draw() {
    const top = Math.floor(this.body.scrollTop / this.rowHeight) - kBeyond;
    const first = Math.max(0, top);
    const end = Math.min(this.rows.length, top + Math.ceil(this.body.clientHeight / this.rowHeight) + 2 * kBeyond + 1);
    for (const [index, node] of this.shown) {
      if (index >= first && index < end) continue;
      node.remove();
      this.shown.delete(index);
    }
    const fresh = [];
    for (let i = first; i < end; ++i) {
      if (this.shown.has(i)) continue;
      const node = this.row(this.rows[i], i);
      this.shown.set(i, node);
      fresh.push(node);
    }
    this.body.append(...fresh);
  }

  row(row, index) {
    const special = this.cells(row);
    const node = element('div', {role: 'row', 'aria-rowindex': String(index + 2), 'data-name': row.name},
        ...this.columns.map((column) => special[column.name] ??
            element('div', {role: 'cell', class: column.class}, column.text(row))));
    node.style.top = `${index * this.rowHeight}px`;
    return node;
  }
}

const kTierOrder = {device: 0, loading: 1, host: 2, disk: 3};
const kTierWord = {device: 'device', loading: 'loading', host: 'host', disk: 'disk'};

function engineColumns() {
  return [
    {name: 'name', label: 'Adapter', of: (row) => row.name, text: (row) => row.name},
    {name: 'rank', label: 'Rank', class: 'number', of: (row) => row.rank, text: (row) => String(row.rank)},
    {name: 'bytes', label: 'Size', class: 'number', of: (row) => row.bytes, text: (row) => bytes(row.bytes)},
    {name: 'tier', label: 'Where', of: (row) => kTierOrder[row.tier] ?? 9, text: (row) => row.tier},
    {name: 'hits', label: 'Hits', class: 'number', of: (row) => row.hits, text: (row) => count(row.hits)},
    {name: 'cold', label: 'Cold', class: 'number', of: (row) => row.cold_starts,
     text: (row) => count(row.cold_starts)},
    {name: 'active', label: 'Requests', class: 'number', of: (row) => row.running + row.waiting,
     text: (row) => row.running + row.waiting === 0 ? '' :
        `${row.running}${row.waiting > 0 ? ` + ${row.waiting}` : ''}`},
    {name: 'modules', label: 'Modules', class: 'dimmed', text: (row) => row.modules.join(' ')},
    {name: 'more', label: '', class: 'more', text: (row) => [row.tier, `rank ${row.rank}`, bytes(row.bytes),
      `${count(row.hits)} hits`, `${count(row.cold_starts)} cold`, row.pinned ? 'pinned' : ''].filter(Boolean).join(' · ')},
    {name: 'actions', label: '', class: 'actions', text: () => ''},
  ];
}

function deviceText(row) {
  return row.resident.length === 0 ? `none of ${row.engines}` : row.resident.map(place).join(', ');
}

// An engine's row says whether, a router's where: it is pinned if all that have the adapter pin it.
function isPinned(row) {
  return Array.isArray(row.pinned) ? row.pinned.length > 0 && row.pinned.length >= row.engines : row.pinned;
}

// Drawn, as few fonts have a pin.
function pinMark(where) {
  return svg('svg', {class: 'pin', viewBox: '0 0 10 14', 'aria-hidden': 'true'}, svg('title', {}, where),
             svg('path', {d: 'M3 1h4l-.5 4 2.5 3h-3.4l-.6 5-.6-5h-3.4l2.5-3z'}));
}

function routerColumns() {
  return [
    {name: 'name', label: 'Adapter', of: (row) => row.name, text: (row) => row.name},
    {name: 'rank', label: 'Rank', class: 'number', of: (row) => row.rank, text: (row) => String(row.rank)},
    {name: 'bytes', label: 'Size', class: 'number', of: (row) => row.bytes, text: (row) => bytes(row.bytes)},
    {name: 'engines', label: 'On the device of', of: (row) => -row.resident.length,
     text: (row) => deviceText(row)},
    {name: 'more', label: '', class: 'more', text: (row) => `on ${deviceText(row)} · rank ${row.rank} · ${bytes(row.bytes)}`},
    {name: 'actions', label: '', class: 'actions', text: () => ''},
  ];
}

// `act`: {pin(row, pinned), unload(row), tryIt(row)}.
export class AdapterTable {
  constructor(kind, act) {
    this.kind = kind;
    this.act = act;
    this.mayLoad = false;
    this.all = new Map();
    this.table = new VirtualTable(byId('adapter-table'), 'Adapters',
        kind === 'engine' ? engineColumns() : routerColumns(), (row) => this.cells(row));
    byId('adapter-filter').addEventListener('input', () => this.filter());
    byId('adapter-tier').addEventListener('change', () => this.filter());
  }

  set(all, mayLoad) {
    this.all = all;
    this.mayLoad = mayLoad;
    this.filter();
  }

  filter() {
    const word = byId('adapter-filter').value.toLowerCase();
    const tier = this.kind === 'engine' ? byId('adapter-tier').value : '';
    const rows = [...this.all.values()].filter((row) =>
      row.name.toLowerCase().includes(word) && (tier === '' || row.tier === tier));
    const onDevice = [...this.all.values()].filter((row) => row.tier === 'device').length;
    const shown = rows.length === this.all.size ? '' : `${count(rows.length)} shown of `;
    setText(byId('adapters-note'), `${shown}${count(this.all.size)}` +
        (this.kind === 'engine' ? `, ${count(onDevice)} on the device` : ''));
    this.table.set(rows);
  }

  cells(row) {
    const special = {
      name: element('div', {role: 'cell', class: 'name', title: row.path ?? row.name}, row.name),
    };
    if (row.tier !== undefined) {
      const pin = row.pinned ? ', pinned' : '';
      special.tier = element('div', {role: 'cell'}, element('span', {class: `tier ${row.tier in kTierWord ? row.tier : ''}`},
                                                            row.tier), row.pinned ? pinMark('pinned') : null);
      special.tier.setAttribute('aria-label', `${row.tier}${pin}`);
    }
    if (this.kind === 'router' && row.pinned.length > 0) {
      const where = `pinned on ${row.pinned.map(place).join(', ')}`;
      special.engines = element('div', {role: 'cell', 'aria-label': `${deviceText(row)}, ${where}`},
                                pinMark(where), deviceText(row));
    }
    const pinned = isPinned(row);
    special.actions = element('div', {role: 'cell', class: 'actions'},
        element('button', {type: 'button', class: 'try', 'aria-label': `Try ${row.name}`,
                           click: () => this.act.tryIt(row)}, 'Try'),
        element('button', {type: 'button', disabled: !this.mayLoad, click: () => this.act.pin(row, !pinned),
                           'aria-label': `${pinned ? 'Unpin' : 'Pin'} ${row.name}`}, pinned ? 'Unpin' : 'Pin'),
        this.unloadButton(row));
    return special;
  }

  // Asks once more, in its own place.
  unloadButton(row) {
    const sure = this.sure === row.name;
    return element('button', {
      type: 'button', class: sure ? 'sure' : null, disabled: !this.mayLoad,
      'aria-label': sure ? `Really unload ${row.name}` : `Unload ${row.name}`,
      click: () => {
        if (this.sure === row.name) {
          this.sure = null;
          this.act.unload(row);
        } else {
          this.sure = row.name;
          clearTimeout(this.forget);
          this.forget = setTimeout(() => {
            this.sure = null;
            this.filter();
          }, 4000);
        }
        this.filter();
      },
    }, sure ? 'Sure?' : 'Unload');
  }
}
