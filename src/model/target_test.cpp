#include "model/target.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <list>
#include <numeric>
#include <random>

#include "backend/cpu/cpu.h"
#include "backend/reference/reference.h"
#include "backend/wrap/checking.h"
#include "backend/wrap/forwarding.h"
#include "backend/wrap/tracing.h"
#include "core/error.h"

namespace talon::target_test {
namespace {

using Rows = std::vector<float>;

const std::string kStories260k = std::string(TALON_TEST_DATA) + "/golden/stories260k/target";

struct BackendCase {
  std::string name;
  std::unique_ptr<Backend> (*make)(int threads);
};
void PrintTo(const BackendCase& backend, std::ostream* out) { *out << backend.name; }

const std::string kStories260kPairwise = std::string(TALON_TEST_DATA) + "/models/stories260K.bin";

std::vector<TokenId> random_tokens(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 512);
  return tokens;
}

std::vector<NodeId> first_rows(int count) {
  std::vector<NodeId> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

/// stories260K on one backend.
struct Small {
  explicit Small(std::unique_ptr<Backend> on, std::vector<FeatureTap> taps = {})
      : backend(std::move(on)),
        model(load_model(open_checkpoint(kStories260k), *backend)),
        cache(*backend, within_budget(kv_shape(model.config, 1), std::size_t{1} << 22U)),
        target(model, cache, 128, std::move(taps)) {}

  Rows download(const View& view) {
    Rows rows(static_cast<std::size_t>(view.rows) * static_cast<std::size_t>(view.cols));
    if (view) backend->download(view, rows);
    return rows;
  }
  Rows logits(KvSequence& sequence, std::span<const TokenId> tokens,
              std::span<const NodeId> parents = {}) {
    EXPECT_TRUE(sequence.reserve(static_cast<int>(tokens.size())));
    const SequenceRows rows{&sequence, tokens, parents, SequenceRows::Logits::all};
    return download(target.forward({&rows, 1}).logits);
  }
  /// The logits of every row of `tokens`, fed `chunk` rows at a time.
  Rows prefill(KvSequence& sequence, std::span<const TokenId> tokens, int chunk) {
    Rows all;
    for (std::size_t begin = 0; begin < tokens.size(); begin += static_cast<std::size_t>(chunk)) {
      const auto part =
          tokens.subspan(begin, std::min(static_cast<std::size_t>(chunk), tokens.size() - begin));
      const Rows rows = logits(sequence, part);
      all.insert(all.end(), rows.begin(), rows.end());
      sequence.keep(first_rows(static_cast<int>(part.size())), part);
    }
    return all;
  }

  std::unique_ptr<Backend> backend;
  Model model;
  KvCache cache;
  Target target;
};

bool same_bytes(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}
std::span<const float> row(const Rows& rows, int index) {
  return std::span(rows).subspan(static_cast<std::size_t>(index) * 512, 512);
}

class TargetOnEveryBackend : public testing::TestWithParam<BackendCase> {
 protected:
  Small make(int threads = 2) { return Small(GetParam().make(threads)); }
};

TEST_P(TargetOnEveryBackend, LogitsDoNotDependOnChunksOrThreads) {
  const auto tokens = random_tokens(150, 1);
  Small one = make(1), two = make(2);
  KvSequence whole = one.cache.start(tokens), small = two.cache.start(tokens);
  KvSequence single = two.cache.start(tokens, /*reuse=*/false);
  const Rows expected = one.prefill(whole, tokens, 128);
  EXPECT_TRUE(same_bytes(expected, two.prefill(small, tokens, 7)));
  EXPECT_TRUE(same_bytes(expected, two.prefill(single, tokens, 1)));
}

TEST_P(TargetOnEveryBackend, ATreeGivesThePlainLogitsOfEveryPath) {
  Small s = make();
  const auto prompt = random_tokens(70, 2);
  const auto tokens = random_tokens(40, 3);
  std::mt19937 random(4);
  std::vector<NodeId> parents = {-1};
  while (parents.size() < tokens.size()) {
    parents.push_back(static_cast<NodeId>(random() % (parents.size() + 1)) - 1);
  }
  KvSequence sequence = s.cache.start({});
  s.prefill(sequence, prompt, 64);
  const Rows tree = s.logits(sequence, tokens, parents);
  for (int node = 0; node < static_cast<int>(tokens.size()); ++node) {
    std::vector<TokenId> path = prompt;
    for (NodeId n = node; n >= 0; n = parents[static_cast<std::size_t>(n)]) {
      path.insert(path.begin() + 70, tokens[static_cast<std::size_t>(n)]);
    }
    KvSequence plain = s.cache.start(path);  // reuses the first page of the prompt
    const Rows chain =
        s.prefill(plain, std::span(path).subspan(static_cast<std::size_t>(plain.length())), 16);
    EXPECT_TRUE(same_bytes(row(tree, node), std::span(chain).last(512))) << "node " << node;
  }
}

TEST_P(TargetOnEveryBackend, AfterAnAcceptedPathDecodingGoesOnAsIfItHadBeenPlain) {
  Small s = make();
  const auto prompt = random_tokens(60, 5);
  KvSequence sequence = s.cache.start({});
  s.prefill(sequence, prompt, 64);
  s.logits(sequence, std::vector<TokenId>{1, 2, 3, 4, 5, 6},
           std::vector<NodeId>{-1, -1, 1, 1, 3, 4});
  sequence.keep(std::vector<NodeId>{1, 3, 4, 5}, std::vector<TokenId>{2, 4, 5, 6});
  const Rows next = s.logits(sequence, std::vector<TokenId>{77});

  std::vector<TokenId> text = prompt;
  text.insert(text.end(), {2, 4, 5, 6, 77});
  KvSequence plain = s.cache.start(text, /*reuse=*/false);
  const Rows expected = s.prefill(plain, text, 64);
  EXPECT_TRUE(same_bytes(next, std::span(expected).last(512)));
}

TEST_P(TargetOnEveryBackend, SequencesInOneForwardDoNotDisturbEachOther) {
  Small s = make();
  const auto a = random_tokens(50, 6), b = random_tokens(33, 7);
  KvSequence alone_a = s.cache.start(a, false), alone_b = s.cache.start(b, false);
  const Rows expected_a = s.prefill(alone_a, a, 64);
  const Rows expected_b = s.prefill(alone_b, b, 64);
  KvSequence both_a = s.cache.start(a, false), both_b = s.cache.start(b, false);
  ASSERT_TRUE(both_a.reserve(50) && both_b.reserve(33));
  const SequenceRows batch[] = {{&both_a, a, {}, SequenceRows::Logits::all},
                                {&both_b, b, {}, SequenceRows::Logits::last}};
  const ForwardResult result = s.target.forward(batch);
  EXPECT_EQ(result.first_logits_row, (std::vector<int>{0, 50}));
  EXPECT_EQ(result.first_row, (std::vector<int>{0, 50}));
  const Rows logits = s.download(result.logits);
  ASSERT_EQ(logits.size(), 51U * 512);
  EXPECT_TRUE(same_bytes(expected_a, std::span(logits).first(50 * 512)));
  EXPECT_TRUE(same_bytes(row(expected_b, 32), row(logits, 50)));
}

TEST_P(TargetOnEveryBackend, TapsDoNotChangeLogits) {
  Small plain = make();
  Small tapped(GetParam().make(2), {{1}, {FeatureTap::kFinalNorm}, {5}});
  const auto tokens = random_tokens(20, 8);
  KvSequence a = plain.cache.start(tokens), b = tapped.cache.start(tokens);
  EXPECT_TRUE(same_bytes(plain.logits(a, tokens), tapped.logits(b, tokens)));
  EXPECT_EQ(tapped.target.feature_width(), 3 * 64);
  ASSERT_TRUE(b.reserve(20));
  const SequenceRows rows{&b, tokens, {}, SequenceRows::Logits::none};
  const ForwardResult result = tapped.target.forward({&rows, 1});
  EXPECT_FALSE(result.logits);
  const Rows features = tapped.download(result.features);
  const auto tap = [&](std::size_t at) { return std::span(features).subspan(at * 64, 64); };
  EXPECT_FALSE(same_bytes(tap(0), tap(1)));
  EXPECT_FALSE(same_bytes(tap(1), tap(2)));
}

std::unique_ptr<Backend> make_cpu(int threads) { return make_cpu_backend({.threads = threads}); }
std::unique_ptr<Backend> make_cpu16(int threads) {
  return make_cpu_backend({.threads = threads, .activations = Activations::bits16});
}
std::string case_name(const testing::TestParamInfo<BackendCase>& tested) {
  return tested.param.name;
}

INSTANTIATE_TEST_SUITE_P(Backends, TargetOnEveryBackend,
                         testing::Values(BackendCase{"reference", make_reference_backend},
                                         BackendCase{"cpu", make_cpu},
                                         BackendCase{"cpu16", make_cpu16}),
                         case_name);

TEST(Target, ARowOutsideVocabularyOrRoomIsABug) {
  Small s(make_reference_backend(1));
  KvSequence sequence = s.cache.start({});
  const std::vector<TokenId> bad = {512};
  const std::vector<TokenId> good = {1};
  const SequenceRows unknown{&sequence, bad, {}, SequenceRows::Logits::all};
  const SequenceRows no_room{&sequence, good, {}, SequenceRows::Logits::all};
  EXPECT_THROW(s.target.forward({&no_room, 1}), Bug);
  ASSERT_TRUE(sequence.reserve(1));
  EXPECT_THROW(s.target.forward({&unknown, 1}), Bug);
}

TEST(CheckingBackend, FindsNoDifferenceBetweenTwoReferencesOverAWholeModel) {
  auto checking = make_checking_backend(make_reference_backend(1), make_reference_backend(2), 0);
  CheckingBackend& watched = *checking;
  Small s(std::move(checking));
  const auto tokens = random_tokens(12, 9);
  KvSequence sequence = s.cache.start({});
  s.prefill(sequence, tokens, 5);
  EXPECT_TRUE(watched.mismatches().empty());
}

TEST(TracingBackend, NamesEveryOperationAndTheWeightsItRead) {
  auto tracing = make_tracing_backend(make_reference_backend(1));
  TracingBackend& traced = *tracing;
  Small s(std::move(tracing));
  traced.clear();
  KvSequence sequence = s.cache.start({});
  s.logits(sequence, std::vector<TokenId>{1, 2, 3});
  std::size_t bytes = 0, attentions = 0;
  for (const TraceEntry& entry : traced.entries()) {
    bytes += entry.weight_bytes;
    attentions += entry.operation == "attention" && entry.rows == 3;
    EXPECT_GE(entry.ms, 0);
  }
  EXPECT_EQ(attentions, 5U);
  EXPECT_EQ(bytes, s.model.weight_bytes);
}

// Loading.

template <typename Change>
std::string load_error(Change&& change) {
  Checkpoint checkpoint = open_checkpoint(kStories260k);
  change(checkpoint);
  const auto backend = make_reference_backend(1);
  try {
    load_model(checkpoint, *backend);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

StoredTensor& tensor(Checkpoint& checkpoint, std::string_view name) {
  for (StoredTensor& stored : checkpoint.tensors) {
    if (stored.name == name) return stored;
  }
  throw std::runtime_error("no such tensor");
}

void expect_contains(const std::string& message, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks: " << part;
  }
}

TEST(LoadModel, AMissingTensorIsNamed) {
  const std::string name = "model.layers.2.mlp.up_proj.weight";
  expect_contains(load_error([&](Checkpoint& c) {
                    std::erase_if(c.tensors, [&](const auto& t) { return t.name == name; });
                  }),
                  {name});
}

TEST(LoadModel, AWrongShapeOfAnotherModelIsNamed) {
  expect_contains(load_error([](Checkpoint& c) { c.metadata["intermediate_size"] = 176; }),
                  {"target", "mlp.gate_proj.weight", "expected [176, 64]", "found [172, 64]"});
  expect_contains(load_error([](Checkpoint& c) { c.metadata["vocab_size"] = 513; }),
                  {"embed_tokens", "expected [513, 64]", "found [512, 64]"});
  expect_contains(load_error([](Checkpoint& c) { c.metadata["num_hidden_layers"] = 6; }),
                  {"model.layers.5."});
}

TEST(LoadModel, AWrongTypeIsNamed) {
  expect_contains(
      load_error([](Checkpoint& c) { tensor(c, "model.norm.weight").type = StorageType::i32; }),
      {"model.norm.weight", "floating-point", "found i32"});
}

TEST(LoadModel, NanAndInfinityAreFoundInEveryTensor) {
  const Checkpoint original = open_checkpoint(kStories260k);
  for (const StoredTensor& stored : original.tensors) {
    std::vector<float> values(stored.bytes.size() / sizeof(float));
    std::memcpy(values.data(), stored.bytes.data(), stored.bytes.size());
    values[values.size() / 2] = INFINITY;
    expect_contains(load_error([&](Checkpoint& c) {
                      tensor(c, stored.name).bytes = std::as_bytes(std::span(values));
                    }),
                    {"\"" + stored.name + "\"", "expected finite values"});
  }
}

/// Remembers the largest matrix.
class MeasuringBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  Buffer allocate(int rows, int cols) override {
    most_values =
        std::max(most_values, static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
    return ForwardingBackend::allocate(rows, cols);
  }
  std::size_t most_values = 0;
};

TEST(Target, AContextOfAMillionPositionsCostsWhatTheCacheHolds) {
  MeasuringBackend backend(make_reference_backend(1));
  Model model = load_model(open_checkpoint(kStories260k), backend);
  model.config.context = 1 << 20;
  constexpr int kPages = 2;
  KvCache cache(backend, kv_shape(model.config, kPages));
  backend.most_values = 0;
  Target target(model, cache, 1);
  EXPECT_LE(backend.most_values,
            static_cast<std::size_t>(kPages * kPageRows * model.config.head_dim));
  KvSequence sequence = cache.start({}, false);
  const std::vector<TokenId> tokens(kPages * kPageRows, 5);
  for (const TokenId token : tokens) {
    ASSERT_TRUE(sequence.reserve(1));
    const SequenceRows row{&sequence, std::span(&token, 1), {}, SequenceRows::Logits::last};
    target.forward(std::span(&row, 1));
    const NodeId first = 0;
    sequence.keep(std::span(&first, 1), std::span(&token, 1));
  }
  EXPECT_FALSE(sequence.reserve(1));
}

TEST(LoadModel, ProgressEndsAtTheNumberOfTensors) {
  const auto backend = make_reference_backend(1);
  std::size_t last = 0, total = 0;
  const LoadOptions options{.context = 100, .progress = [&](std::size_t done, std::size_t of) {
                              EXPECT_EQ(done, last + 1);
                              last = done;
                              total = of;
                            }};
  const Checkpoint checkpoint = open_checkpoint(kStories260k);
  const Model model = load_model(checkpoint, *backend, options);
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, checkpoint.tensors.size());
  EXPECT_EQ(model.config.context, 100);
}

/// The reference's logits of 30 fixed tokens.
Rows logits_of(const Checkpoint& checkpoint) {
  const auto tokens = random_tokens(30, 10);
  const auto backend = make_reference_backend(2);
  const Model model = load_model(checkpoint, *backend);
  KvCache cache(*backend, within_budget(kv_shape(model.config, 1), std::size_t{1} << 22U));
  Target target(model, cache, 64);
  KvSequence sequence = cache.start({});
  EXPECT_TRUE(sequence.reserve(30));
  const SequenceRows rows{&sequence, tokens, {}, SequenceRows::Logits::all};
  Rows all(30U * 512);
  backend->download(target.forward({&rows, 1}).logits, all);
  return all;
}

TEST(LoadModel, PairwiseAndHalfSplitFilesOfOneModelGiveTheSameLogits) {
  EXPECT_TRUE(same_bytes(logits_of(open_checkpoint(kStories260k)),
                         logits_of(open_checkpoint(kStories260kPairwise))));
}

/// Adds vectors of random values to a checkpoint, which borrows them.
class Biases {
 public:
  void add(Checkpoint& to, const std::string& name, std::vector<float> values) {
    values_.push_back(std::move(values));
    const std::vector<float>& kept = values_.back();
    to.tensors.push_back({name,
                          StorageType::f32,
                          {static_cast<std::int64_t>(kept.size())},
                          std::as_bytes(std::span(kept))});
  }

 private:
  std::list<std::vector<float>> values_;
};

std::vector<float> random_bias(int size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(static_cast<std::size_t>(size));
  for (float& value : values) value = normal(random);
  return values;
}

/// Half-split rotary order to pairwise, heads of 8.
std::vector<float> pairwise(const std::vector<float>& from) {
  std::vector<float> to;
  for (std::size_t head = 0; head < from.size(); head += 8) {
    for (std::size_t i = 0; i < 4; ++i) to.insert(to.end(), {from[head + i], from[head + i + 4]});
  }
  return to;
}

TEST(LoadModel, BiasesArePutInTheOrderOfTheirRows) {
  Checkpoint half_split = open_checkpoint(kStories260k);
  const Rows without = logits_of(half_split);
  half_split.metadata["attention_bias"] = true;
  Checkpoint gguf = open_checkpoint(kStories260kPairwise);
  gguf.format = CheckpointFormat::gguf;
  gguf.metadata = {
      {"general.architecture", "llama"},    {"llama.block_count", 5},
      {"llama.embedding_length", 64},       {"llama.feed_forward_length", 172},
      {"llama.context_length", 512},        {"llama.attention.head_count", 8},
      {"llama.attention.head_count_kv", 4}, {"llama.attention.layer_norm_rms_epsilon", 1e-5}};
  Biases biases;
  for (int layer = 0; layer < 5; ++layer) {
    const std::string ours = fmt::format("model.layers.{}.self_attn.", layer);
    const std::string theirs = fmt::format("blk.{}.attn_", layer);
    const auto seed = static_cast<unsigned>(layer) * 4;
    const auto q = random_bias(64, seed), k = random_bias(32, seed + 1);
    const auto v = random_bias(32, seed + 2), o = random_bias(64, seed + 3);
    biases.add(half_split, ours + "q_proj.bias", q);
    biases.add(half_split, ours + "k_proj.bias", k);
    biases.add(half_split, ours + "v_proj.bias", v);
    biases.add(half_split, ours + "o_proj.bias", o);
    biases.add(gguf, theirs + "q.bias", pairwise(q));
    biases.add(gguf, theirs + "k.bias", pairwise(k));
    biases.add(gguf, theirs + "v.bias", v);
    biases.add(gguf, theirs + "output.bias", o);
  }
  const Rows expected = logits_of(half_split);
  EXPECT_FALSE(same_bytes(expected, without));
  EXPECT_TRUE(same_bytes(expected, logits_of(gguf)));
}

}  // namespace
}  // namespace talon::target_test
