// What a page adds to a graph's logits: those of a linear model of n-grams, as predict.py computes them.
const WORD_CHARACTER = String.raw`[\p{L}\p{N}_]`; // what Python takes for \w
const ITEMS = {
  word: new RegExp(`${WORD_CHARACTER}{2,}`, "gu"),
  token: new RegExp(`${WORD_CHARACTER}+|[^\\p{L}\\p{N}_\\s\\x1c-\\x1f\\x85]|\\ufeff`, "gu"),
};

// Return the linear model of two packed files: its settings, the column of each n-gram, and its arrays.
function linearModelOf(about, arrays) {
  const columns = new Map(about.vocabulary.map((ngram, column) => [ngram, column]));
  return { ...about, columns, ...arraysOf(arrays, ["idf", "weights", "intercept"]) };
}

// Return the graph's logits pooled with those of the linear model for a text, or a pair.
function pooledWith(linear, logits, text, pair) {
  const added = linearOutputs(linear, text, pair);
  return logits.map((logit, place) => ((1 - linear.weight) * logit + linear.weight * added[place]) / linear.temperature);
}

function linearOutputs(linear, text, pair) {
  let held;
  if (linear.setting.compared) held = compared(tfIdf(linear, text), tfIdf(linear, pair), linear.columns.size);
  else held = tfIdf(linear, pair === null ? text : `${text} ${pair}`);
  const outputs = Array.from(linear.intercept);
  for (const [column, value] of held) {
    outputs.forEach((_, place) => (outputs[place] += value * linear.weights[column * outputs.length + place]));
  }
  return outputs;
}

// Return the features of two texts: what both hold, what each holds beyond that, and their cosine.
function compared(first, second, nNgrams) {
  const features = new Map();
  let cosine = 0;
  for (const [column, value] of first) {
    if (!second.has(column)) continue;
    features.set(column, Math.min(value, second.get(column)));
    cosine += value * second.get(column);
  }
  const both = new Map(features);
  [first, second].forEach((held, number) => {
    for (const [column, value] of held) features.set((number + 1) * nNgrams + column, value - (both.get(column) ?? 0));
  });
  return features.set(3 * nNgrams, cosine);
}

// Return the value of each known n-gram of a text by its column; the squares of all add up to 1.
// With n-grams beside others, whose names begin with a blank, those of each kind add up to 1/2.
function tfIdf({ setting, columns, idf }, text) {
  const { beside } = setting.ngrams;
  const kinds = [["", setting.ngrams], ...(beside ? [[" ", beside]] : [])];
  const features = new Map();
  for (const [begin, kind] of kinds) {
    const counts = new Map();
    for (const ngram of ngramsOf(text.toLowerCase(), kind)) {
      const column = columns.get(begin + ngram);
      if (column !== undefined) counts.set(column, (counts.get(column) ?? 0) + 1);
    }
    let squares = 0;
    for (const [column, count] of counts) {
      const value = (kind.sublinear ? 1 + Math.log(count) : count) * idf[column];
      counts.set(column, value);
      squares += value ** 2;
    }
    for (const [column, value] of counts) features.set(column, value / Math.sqrt(squares * kinds.length));
  }
  return features;
}

// Yield each n-gram of words, of words and marks, or of the characters of a word between two spaces.
function* ngramsOf(text, { analyzer, shortest, longest }) {
  if (analyzer in ITEMS) {
    const items = text.match(ITEMS[analyzer]) ?? [];
    for (let n = shortest; n <= longest; n++) {
      for (let start = 0; start + n <= items.length; start++) yield items.slice(start, start + n).join(" ");
    }
    return;
  }
  for (const word of text.split(BLANKS).filter((one) => one)) {
    const padded = [" ", ...word, " "]; // characters, not halves of them
    for (let n = shortest; n <= longest; n++) {
      for (let start = 0; start === 0 || start + n <= padded.length; start++) yield padded.slice(start, start + n).join("");
      if (n >= padded.length) break; // a short word counts once
    }
  }
}
