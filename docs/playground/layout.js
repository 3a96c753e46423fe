// Where the nodes of a network lie in the picture. Neighbours in a grid are 1 apart; y grows downwards.

/** The most nodes that are placed by their distances; others lie on a circle. */
const SEARCHED = 128;
/** Between ranks that differ in another dimension than the last two, along a diagonal. */
const DIAGONAL = 0.75;

/** Positions of all nodes, and the directions in which wrap-around links leave the grid (by link). */
export function layOut(network) {
  const wide = network.dimensions.length > 1;
  let places;
  if (wide) {
    places = network.coordinates.map((at) => inGrid(network.dimensions, at));
  } else if (network.is_round || network.nodes > SEARCHED) {
    places = circle(network.ranks);
  } else {
    const all = byDistance(network);
    return { places: all, wraps: new Map() };
  }
  return { places: withSwitches(network, places, wide ? -0.4 : 0), wraps: wide ? wraps(network) : new Map() };
}

/** The last two dimensions make a plane. Further ones lead along diagonals, as if one looked at the planes from the side. */
function inGrid(sizes, at) {
  const planes = sizes.slice(0, -2);
  const number = planes.reduce((sum, size, d) => sum * size + at[d], 0);
  const count = planes.reduce((product, size) => product * size, 1);
  const apart = count > 1 ? (count - 1) * DIAGONAL + 1.3 : 1;
  return [at.at(-1), at.at(-2)].map((coordinate) => apart * coordinate + DIAGONAL * number);
}

export function circle(count) {
  const radius = count > 1 ? Math.max(1, count / (2 * Math.PI)) : 0;
  return Array.from({ length: count }, (_, i) => {
    const angle = (2 * Math.PI * i) / count;
    return [radius * Math.sin(angle), -radius * Math.cos(angle)];
  });
}

/** Switches lie in the middle of their neighbours (Tutte, How to draw a graph, 1963), found by iteration. */
function withSwitches(network, ranks, lift) {
  const places = [...ranks];
  for (let node = network.ranks; node < network.nodes; node++) places.push([0, 0]);
  if (network.nodes === network.ranks) return places;
  const near = neighbours(network);
  for (let round = 0; round < 200; round++) {
    for (let node = network.ranks; node < network.nodes; node++) {
      const around = near[node].length ? near[node] : [0];
      places[node] = [0, 1].map((axis) => around.reduce((sum, other) => sum + places[other][axis], 0) / around.length);
    }
  }
  // Switches with the same neighbours would lie upon each other.
  const seen = new Map();
  for (let node = network.ranks; node < network.nodes; node++) {
    const key = places[node].map((value) => value.toFixed(2)).join();
    seen.set(key, [...(seen.get(key) ?? []), node]);
  }
  for (const nodes of seen.values()) {
    const ring = circle(nodes.length);
    nodes.forEach((node, index) => {
      const [x, y] = places[node];
      places[node] = nodes.length > 1 ? [x + 0.6 * ring[index][0], y + 0.6 * ring[index][1]] : [x, y + lift];
    });
  }
  return places;
}

function neighbours({ nodes, links }) {
  const near = Array.from({ length: nodes }, () => []);
  for (const [a, b] of links) {
    near[a].push(b);
    near[b].push(a);
  }
  return near;
}

/** Distances in the picture follow hops in the network, by stress majorization (Gansner, Koren and North, 2004). */
function byDistance(network) {
  const { nodes } = network;
  const near = neighbours(network);
  const hops = near.map((_, start) => {
    const found = new Array(nodes).fill(0);
    const queue = [start];
    found[start] = 0.5;
    for (const node of queue) {
      for (const other of near[node]) {
        if (!found[other]) {
          found[other] = Math.floor(found[node]) + 1;
          queue.push(other);
        }
      }
    }
    return found;
  });
  let places = circle(nodes);
  for (let round = 0; round < 150; round++) {
    places = places.map(([x, y], i) => {
      let [sumX, sumY, weights] = [0, 0, 0];
      for (let j = 0; j < nodes; j++) {
        if (i === j || !hops[i][j]) continue;
        const [dx, dy] = [x - places[j][0], y - places[j][1]];
        const apart = Math.hypot(dx, dy) || 1e-6;
        const weight = hops[i][j] ** -2;
        sumX += weight * (places[j][0] + (hops[i][j] * dx) / apart);
        sumY += weight * (places[j][1] + (hops[i][j] * dy) / apart);
        weights += weight;
      }
      return weights ? [sumX / weights, sumY / weights] : [x, y];
    });
  }
  return scaled(places);
}

/** Neighbours at least 1 apart, within reason. */
function scaled(places) {
  let nearest = Infinity;
  for (let i = 0; i < places.length; i++) {
    for (let j = 0; j < i; j++) {
      nearest = Math.min(nearest, Math.hypot(places[i][0] - places[j][0], places[i][1] - places[j][1]));
    }
  }
  const factor = Math.min(3, Math.max(1, 1 / (nearest || 1)));
  return places.map(([x, y]) => [factor * x, factor * y]);
}

/**
 * Of grids, the links to the other end of a dimension, with the direction in which they leave the grid. Where ranks have
 * links into the middle of a dimension, too (HyperX), none leaves it.
 */
function wraps({ dimensions, coordinates, links, ranks }) {
  const found = new Map();
  const known = new Set();
  const full = new Set();
  links.forEach(([source, target], link) => {
    if (Math.max(source, target) >= ranks) return;
    const steps = coordinates[target].map((value, d) => value - coordinates[source][d]);
    const differing = steps.flatMap((step, d) => (step ? [d] : []));
    if (differing.length === 1) {
      const [d] = differing;
      const [step, size] = [steps[d], dimensions[d]];
      const second = known.has(`${source} ${target}`);
      if (Math.abs(step) === size - 1 && (size > 2 || second)) found.set(link, { d, sign: -Math.sign(step) });
      else if (Math.abs(step) > 1) full.add(d);
    }
    known.add(`${source} ${target}`);
  });
  const leaving = [...found].filter(([, { d }]) => !full.has(d));
  return new Map(leaving.map(([link, { d, sign }]) => [link, outwards(dimensions.length - 1 - d, sign)]));
}

/** Dimensions count from the last: along the row, along the column, else diagonal. */
function outwards(dimension, sign) {
  if (dimension === 0) return [sign, 0];
  if (dimension === 1) return [0, sign];
  return [sign * Math.SQRT1_2, sign * Math.SQRT1_2];
}
