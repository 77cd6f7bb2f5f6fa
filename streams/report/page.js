// The parts of the page that move: the state of a live worker, and the map of a release. Everything else is plain HTML.
// Nothing is fetched but from where the page came from; a page in a file brings its release along and fetches nothing.
"use strict";
(() => {
  const BINS = 48; // along one side of the map
  const STEPS = 6; // of the scale
  const LISTED = 10; // groups
  const LEFT = 90, BOTTOM = 44, TOP = 8, RIGHT = 8;
  const NARROW = matchMedia("(max-width: 30rem)"); // a picture that is shrunk has a text that nobody can read
  const REFRESH_MS = 3000;
  const byId = (id) => document.getElementById(id);
  const svg = (name, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const html = (name, text, attributes = {}) => {
    const made = document.createElement(name);
    made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const show = (number) => number.toLocaleString("en", { maximumFractionDigits: number < 10 ? 2 : 0 });
  const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 2 : 1)} %`;

  // -- the worker, live -------------------------------------------------------------------------------------------
  const now = byId("now");
  if (now && now.dataset.from) {
    const refresh = async () => {
      try {
        const answer = await fetch(now.dataset.from, { cache: "no-store" });
        if (answer.ok) now.innerHTML = await answer.text();
        now.classList.toggle("stale", !answer.ok);
      } catch {
        byId("worker-state").textContent = "does not answer";
      }
    };
    setInterval(() => { if (!document.hidden) refresh(); }, REFRESH_MS);
  }

  // -- a release --------------------------------------------------------------------------------------------------
  const chosen = { atlas: null, across: 0, up: 1, shade: "" };
  let bins = null, cursor = null;

  const axis = (attribute) => {
    const span = attribute.high - attribute.low;
    const count = attribute.kind === "float" ? BINS : Math.min(BINS, span);
    return { attribute, count, width: span / count };
  };
  const edge = (side, bin) => side.attribute.low + bin * side.width;
  const name = (attribute, low, high) => {
    if (attribute.labels) {
      const first = attribute.labels[Math.floor(low)], last = attribute.labels[Math.min(attribute.labels.length, Math.ceil(high)) - 1];
      return first === last ? first : `${first} … ${last}`;
    }
    if (attribute.kind === "float") return `${show(low)} to ${show(high)}`;
    const [first, last] = [Math.floor(low), Math.ceil(high) - 1];
    return first >= last ? `${first}` : `${first} to ${last}`;
  };

  // People, and rows with the value that is shaded, spread evenly over the bins that their region covers.
  const spread = () => {
    const { atlas, across, up, shade } = chosen, { cells } = atlas;
    const x = axis(atlas.attributes[across]), y = axis(atlas.attributes[up]);
    const people = new Float64Array(x.count * y.count), value = new Float64Array(x.count * y.count);
    const expected = shade ? atlas.expected[shade] : null;
    const shares = (side, low, high) => {
      const found = [];
      const first = Math.max(0, Math.floor((low - side.attribute.low) / side.width + 1e-9));
      for (let bin = first; bin < side.count && edge(side, bin) < high - 1e-9; bin++) {
        const common = Math.min(high, edge(side, bin + 1)) - Math.max(low, edge(side, bin));
        found.push([bin, common / (high - low)]);
      }
      return found;
    };
    for (let cell = 0; cell < cells.names.length; cell++) {
      const rows = shares(y, cells.low[up][cell], cells.high[up][cell]);
      for (const [column, share] of shares(x, cells.low[across][cell], cells.high[across][cell])) {
        for (const [row, other] of rows) {
          const at = row * x.count + column;
          people[at] += cells.people[cell] * share * other;
          if (expected) value[at] += expected[cell] * share * other;
        }
      }
    }
    return { x, y, people, value };
  };

  const shadeOf = (at) => (chosen.shade ? (bins.people[at] ? bins.value[at] / bins.people[at] : 0) : bins.people[at]);

  const draw = () => {
    bins = spread();
    const { x, y } = bins;
    const [WIDTH, HEIGHT, LABELS] = NARROW.matches ? [380, 340, 3] : [640, 420, 6];
    let most = 0;
    for (let at = 0; at < bins.people.length; at++) most = Math.max(most, shadeOf(at));
    const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, tabindex: "0", role: "application",
      "aria-label": `Map of ${x.attribute.name} and ${y.attribute.name}; move with the arrow keys` });
    const wide = (WIDTH - LEFT - RIGHT) / x.count, high = (HEIGHT - TOP - BOTTOM) / y.count;
    const place = (column, row) => ({ x: LEFT + column * wide, y: HEIGHT - BOTTOM - (row + 1) * high, width: wide, height: high });
    picture.append(svg("rect", { class: "ground", x: LEFT, y: TOP, width: WIDTH - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM }));
    for (let row = 0; row < y.count; row++) {
      for (let column = 0; column < x.count; column++) {
        const share = most ? shadeOf(row * x.count + column) / most : 0;
        if (share > 0) picture.append(svg("rect", { ...place(column, row), opacity: (Math.ceil(share * STEPS) / STEPS).toFixed(2) }));
      }
    }
    const label = (side, bin) => name(side.attribute, edge(side, bin), edge(side, bin + 1));
    const marks = (side, room) => {
      const every = Math.max(1, Math.ceil(side.count / room));
      return [...Array(side.count).keys()].filter((bin) => bin % every === 0);
    };
    for (const bin of marks(x, LABELS)) picture.append(svg("text", { class: "tick", x: LEFT + (bin + 0.5) * wide, y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, label(x, bin).slice(0, 14)));
    for (const bin of marks(y, 12)) picture.append(svg("text", { class: "tick", x: LEFT - 6, y: HEIGHT - BOTTOM - (bin + 0.5) * high, dy: ".32em", "text-anchor": "end" }, label(y, bin).slice(0, 14)));
    picture.append(svg("text", { class: "axis", x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, x.attribute.name));
    picture.append(svg("text", { class: "axis", transform: `translate(12 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)`, "text-anchor": "middle" }, y.attribute.name));
    const frame = svg("rect", { class: "cursor", visibility: "hidden" });
    picture.append(frame);

    const move = (column, row) => {
      cursor = { column: Math.max(0, Math.min(x.count - 1, column)), row: Math.max(0, Math.min(y.count - 1, row)) };
      for (const [key, value] of Object.entries(place(cursor.column, cursor.row))) frame.setAttribute(key, value);
      frame.setAttribute("visibility", "visible");
      const at = cursor.row * x.count + cursor.column;
      const what = chosen.shade ? `; ${chosen.shade}: about ${show(bins.value[at])}, ${percent(shadeOf(at))} of them` : "";
      byId("here").textContent = `${x.attribute.name} ${label(x, cursor.column)}, ${y.attribute.name} ${label(y, cursor.row)}: about ${show(bins.people[at])} people${what}`;
    };
    picture.addEventListener("pointermove", (event) => {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(picture.getScreenCTM().inverse());
      const column = Math.floor((point.x - LEFT) / wide), row = Math.floor((HEIGHT - BOTTOM - point.y) / high);
      if (column >= 0 && column < x.count && row >= 0 && row < y.count) move(column, row);
    });
    picture.addEventListener("click", () => cursor && list());
    picture.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (step) move((cursor?.column ?? -step[0]) + step[0], (cursor?.row ?? -step[1]) + step[1]);
      else if (event.key === "Enter" && cursor) list();
      else return;
      event.preventDefault();
    });
    byId("grid").replaceChildren(picture);
    byId("scale").replaceChildren(...[...Array(STEPS).keys()].reverse().map((step) => {
      const line = html("div", ""), patch = html("i", "");
      patch.style.opacity = (step + 1) / STEPS;
      const end = (most * (step + 1)) / STEPS;
      line.append(patch, chosen.shade ? `up to ${percent(end)}` : `up to ${show(end)} expected`);
      return line;
    }));
    byId("here").textContent = byId("groups").textContent = "";
    cursor = null;
  };

  // The groups with rows in a region under the cursor, and what each says.
  const list = () => {
    const { atlas, across, up } = chosen, { cells } = atlas, { x, y } = bins;
    const meets = (cell, attribute, side, bin) => cells.low[attribute][cell] < edge(side, bin + 1) && cells.high[attribute][cell] > edge(side, bin);
    const here = new Set([...cells.names.keys()].filter((cell) => meets(cell, across, x, cursor.column) && meets(cell, up, y, cursor.row)));
    const found = atlas.groups.filter((group) => Object.keys(group.rows).some((cell) => here.has(Number(cell))));
    const parts = found.slice(0, LISTED).map((group) => {
      const rows = Object.values(group.rows).reduce((sum, count) => sum + count, 0);
      const section = document.createElement("section");
      section.append(html("h3", `Group ${group.name}`));
      const shown = Object.entries(group.shows).map(([value, count]) => (count === 1 ? value : `${count} × ${value}`)).join(", ");
      const surplus = group.counterfeits ? `; ${group.counterfeits} of these values ${group.counterfeits === 1 ? "is" : "are"} nobody's` : "";
      const vacant = group.vacant ? `; ${group.vacant} of these values ${group.vacant === 1 ? "has" : "have"} no row now` : "";
      section.append(html("p", `${show(rows)} rows in ${Object.keys(group.rows).length} regions, first shown in release ${group.formed}, show ${shown}${surplus}${vacant}. ${says(group, rows)}`));
      return section;
    });
    parts.unshift(html("p", `${show(here.size)} regions and ${show(found.length)} groups here${found.length > LISTED ? `; the first ${LISTED}:` : ":"}`));
    byId("groups").replaceChildren(...parts);
  };
  const says = (group, rows) => {
    const values = Object.keys(group.shows);
    if (values.length === 1 && values[0] === "*") return "Nothing is said about them.";
    if (values.length === 1 && group.shows[values[0]] >= rows) return "The policy calls this value open: all of them have it.";
    if (values.length === 1) return `One of the ${show(rows)} has it, and nobody can say who.`;
    const most = Math.max(...Object.values(group.shows)), all = Object.values(group.shows).reduce((sum, count) => sum + count, 0);
    return `Whoever knows that somebody is among them guesses right with at most ${percent(most / all)}.`;
  };

  const fill = (select, choices, current) => {
    select.replaceChildren(...choices.map(([value, text]) => html("option", text, value === current ? { value, selected: "" } : { value })));
  };
  const look = (atlas) => {
    chosen.atlas = atlas;
    const names = atlas.attributes.map((attribute, at) => [String(at), attribute.name]);
    chosen.across = Math.min(chosen.across, names.length - 1);
    chosen.up = Math.min(chosen.up, names.length - 1);
    if (!(chosen.shade in atlas.expected)) chosen.shade = "";
    fill(byId("across"), names, String(chosen.across));
    fill(byId("up"), names, String(chosen.up));
    fill(byId("shade"), [["", "people"], ...Object.keys(atlas.expected).map((value) => [value, `share of ${value}`])], chosen.shade);
    const left = Object.entries(atlas.left_out).filter(([, count]) => count).map(([what, count]) => `${show(count)} ${what}`);
    byId("left-out").textContent = left.length ? `Too many for a page, and left out: ${left.join(" and ")}.` : "";
    byId("map").hidden = false;
    draw();
  };
  for (const id of ["across", "up"]) byId(id).addEventListener("change", (event) => { chosen[id] = Number(event.target.value); draw(); });
  byId("shade").addEventListener("change", (event) => { chosen.shade = event.target.value; draw(); });

  const brought = byId("atlas"), numbers = byId("map").dataset;
  if (brought) {
    const atlas = JSON.parse(brought.textContent);
    fill(byId("release"), [[String(atlas.release), String(atlas.release)]]);
    look(atlas);
  } else if (numbers.last) {
    const load = async (number) => {
      const answer = await fetch(`releases/${number}.json`);
      if (answer.ok) look(await answer.json());
      else byId("here").textContent = await answer.text();
    };
    const all = [];
    for (let number = Number(numbers.last); number >= Number(numbers.first); number--) all.push([String(number), String(number)]);
    fill(byId("release"), all);
    byId("release").addEventListener("change", (event) => load(event.target.value));
    load(numbers.last);
  }
})();
