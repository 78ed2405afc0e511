#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/reference/reference.h"
#include "model/cache/kv_cache.h"
#include "model/row_layout.h"

namespace talon::test {

using Tokens = std::vector<TokenId>;

/// The layers of a HashModel: how many pages see all of a text, and which see the last `reach`
/// positions only.
struct HashLayers {
  int pages = 8;
  bool far = true;  // there is one that sees all
  int reach = 0;    // of the near one; 0: there is none
  int near_pages = 0;
};

inline std::string name_of(const HashLayers& layers) {
  if (layers.reach == 0) return "Far";
  return (layers.far ? "FarAndNear" : "Near") + std::to_string(layers.reach);
}
inline void PrintTo(const HashLayers& layers, std::ostream* out) { *out << name_of(layers); }

/// A "model" whose value at a position is a hash of all tokens up to it, and whose attention is the
/// mean of the visible values: a wrong, stale or missing row changes the answer.
class HashModel {
 public:
  explicit HashModel(int pages) : HashModel(HashLayers{pages}) {}
  explicit HashModel(const HashLayers& layers)
      : layers_(layers), cache(*backend, shape(layers, KvType::f32)) {
    rope = backend->allocate(kPositions, 2);
    std::vector<float> no_rotation;
    for (int i = 0; i < kPositions; ++i) no_rotation.insert(no_rotation.end(), {1, 0});
    backend->upload(no_rotation, rope.view());
  }

  static KvShape shape(const HashLayers& layers, KvType type) {
    KvShape shape{layers.far ? 1 : 0, 1, 2, layers.pages, type};
    if (layers.reach == 0) return shape;
    shape.near = {layers.reach, layers.near_pages, 1, {true}, {{1, 2, 2}}};
    if (layers.far) shape.near.layers = {false, true};
    return shape;
  }

  /// Runs rows in flight and expects every row to see exactly its own past.
  void forward(KvSequence& sequence, const Tokens& tokens,
               const std::vector<NodeId>& parents = {}) {
    const SequenceRows part{&sequence, tokens, parents, SequenceRows::Logits::none};
    if (layers_.far) attend(part, cache.place(0), 0);
    if (layers_.reach > 0) attend(part, cache.place(layers_.far ? 1 : 0), layers_.reach);
  }

  /// Reserves, runs and keeps a chain. False when there is no room.
  bool append(KvSequence& sequence, const Tokens& tokens) {
    if (!sequence.reserve(static_cast<int>(tokens.size()))) return false;
    forward(sequence, tokens);
    std::vector<NodeId> path(tokens.size());
    for (std::size_t i = 0; i < path.size(); ++i) path[i] = static_cast<NodeId>(i);
    sequence.keep(path, tokens);
    return true;
  }

  /// A sequence over `prompt` that computes what the cache does not remember; the number it did
  /// remember.
  std::pair<KvSequence, int> run(const Tokens& prompt) {
    KvSequence sequence = cache.start(prompt);
    const int reused = sequence.length();
    EXPECT_TRUE(append(sequence, {prompt.begin() + reused, prompt.end()}));
    return {std::move(sequence), reused};
  }

  static std::vector<float> hashes(const Tokens& tokens) {
    std::vector<float> values;
    std::uint32_t hash = 17;
    for (const TokenId token : tokens) {
      hash = (hash ^ static_cast<std::uint32_t>(token + 1)) * 2654435761U;
      hash ^= hash >> 15U;
      values.push_back(static_cast<float>(hash >> 16U) / 65536.0F);
    }
    return values;
  }
  static float mean(const std::vector<float>& values) {
    double sum = 0;
    for (const float value : values) sum += value;
    return static_cast<float>(sum / static_cast<double>(values.size()));
  }

 private:
  /// Runs a layer, and expects the mean of what each row sees of the text up to it.
  void attend(const SequenceRows& part, const KvPlace& place, int window) {
    const int rows = static_cast<int>(part.tokens.size());
    AttentionLayout layout;
    lay_out_rows({&part, 1}, layout, place.of);
    std::vector<float> values, expected;
    for (int row = 0; row < rows; ++row) {
      std::vector<float> seen = hashes(text_of(part, row));
      values.insert(values.end(), {seen.back(), 1});
      if (window > 0 && std::ssize(seen) > window) seen.erase(seen.begin(), seen.end() - window);
      expected.push_back(mean(seen));
    }
    const auto q = backend->allocate(rows, 2), k = backend->allocate(rows, 2);
    const auto v = backend->allocate(rows, 2), out = backend->allocate(rows, 2);
    backend->upload(values, v.view());
    const auto prepared = backend->prepare(layout);
    backend->attention({.q = q.view(),
                        .k = k.view(),
                        .v = v.view(),
                        .out = out.view(),
                        .cache = place.store,
                        .layer = place.layer,
                        .layout = prepared.get(),
                        .rope = rope.view(),
                        .q_norm = {},
                        .k_norm = {},
                        .scale = 1,
                        .window = window});
    std::vector<float> found(static_cast<std::size_t>(rows) * 2);
    backend->download(out.view(), found);
    for (std::size_t row = 0; row < expected.size(); ++row) {
      ASSERT_FLOAT_EQ(found[2 * row], expected[row]) << "row " << row << ", window " << window;
      ASSERT_FLOAT_EQ(found[2 * row + 1], 1);
    }
  }

  /// The committed text, then what leads to a row and its token.
  static Tokens text_of(const SequenceRows& part, int row) {
    Tokens text;
    const auto parent_of = [&](int of) {
      return part.parents.empty() ? of - 1 : part.parents[static_cast<std::size_t>(of)];
    };
    for (int r = row; r >= 0; r = parent_of(r)) {
      text.push_back(part.tokens[static_cast<std::size_t>(r)]);
    }
    const auto committed = part.sequence->tokens();
    text.insert(text.end(), committed.rbegin(), committed.rend());
    std::reverse(text.begin(), text.end());
    return text;
  }

  HashLayers layers_;
  Buffer rope;

 public:
  static constexpr int kPositions = 4096;
  std::unique_ptr<Backend> backend = make_reference_backend(1);
  KvCache cache;
};

inline Tokens numbered(int count, int first = 0) {
  Tokens tokens(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) tokens[static_cast<std::size_t>(i)] = first + i;
  return tokens;
}

}  // namespace talon::test
