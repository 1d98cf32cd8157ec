// What a page does with a model that labels each word.
const FORBIDDEN = -1e4; // added to the log-probability of a label that would make the sequence invalid
const BLANKS = /(?:[^\S\ufeff]|[\x1c-\x1f\x85])+/; // what Python takes for white space

// Return the words, ids with the special tokens, and the position of the first token of each word that is read.
function encodeWords({ graph, tokenizer, unknown }, text) {
  const words = text.split(BLANKS).filter((word) => word);
  const [begin, end] = graph.special_tokens ? tokenizer.encode("").ids.map((id) => [id]) : [[], []];
  const most = graph.max_length - end.length;
  const ids = [...begin];
  const places = [];
  for (const word of words) {
    const pieces = tokenizer.encode(graph.before_word + word, { add_special_tokens: false }).ids;
    if (ids.length < most) places.push(ids.length);
    ids.push(...(pieces.length > 0 ? pieces : [unknown]));
  }
  const kept = [...ids.slice(0, most), ...end];
  return { words, places, ids: kept, segments: kept.map(() => 0), isTruncated: ids.length > most };
}

// Return the label of each word that is read, and its probability.
function labelsOfWords(graph, logits, places) {
  const labels = Object.values(graph.id2label);
  const scores = places.map((place) => logSoftmax(logits.slice(place * labels.length, (place + 1) * labels.length)));
  const ids = graph.valid ? likeliestValid(graph.valid, scores) : scores.map(largest);
  return ids.map((id, place) => ({ label: labels[id], chance: Math.exp(scores[place][id]) }));
}

function logSoftmax(logits) {
  const most = Math.max(...logits);
  const total = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - most), 0));
  return logits.map((logit) => logit - most - total);
}

function largest(scores) {
  return scores.indexOf(Math.max(...scores));
}

// Return the ids of the likeliest valid sequence (Viterbi 1967). In the strings of `valid`, a label that may begin or
// end a sequence, or follow another, has a 1.
function likeliestValid({ begin, end, follows }, scores) {
  const allowed = (score, flag) => (flag === "1" ? score : score + FORBIDDEN);
  let best = scores[0].map((score, label) => allowed(score, begin[label]));
  const cameFrom = [];
  for (const word of scores.slice(1)) {
    const reached = word.map((_, label) => best.map((score, before) => allowed(score, follows[before][label])));
    cameFrom.push(reached.map(largest));
    best = word.map((score, label) => score + Math.max(...reached[label]));
  }
  const path = [largest(best.map((score, label) => allowed(score, end[label])))];
  for (const before of cameFrom.reverse()) path.unshift(before[path[0]]);
  return path;
}

// Show each word with its label, and the words of an entity in a box of their own.
function tags(graph, words, predictions) {
  const row = made("div", "tagged");
  let entity = null;
  let labelBefore = "O";
  words.forEach((word, place) => {
    const { label, chance } = predictions[place] ?? {};
    const isEntity = graph.entities && label !== undefined && label !== "O";
    if (!isEntity) entity = null;
    else if (!continues(labelBefore, label)) row.append((entity = made("span", "entity")));
    labelBefore = label ?? "O";
    (entity ?? row).append(tag(word, label, chance, graph.entities && !isEntity));
  });
  return [row];
}

// Return whether a word of an entity belongs to the same entity as the word before.
function continues(before, label) {
  return "BI".includes(before[0]) && "IE".includes(label[0]) && before.slice(1) === label.slice(1);
}

function tag(word, label, chance, isQuiet) {
  const node = made("span", "word-tag", word);
  if (label === undefined) node.append(made("small", "unread", "not read"));
  else node.append(made(isQuiet ? "small" : "b", "label", label), made("small", "chance", percentage(chance)));
  return node;
}
