#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "backend/cpu/cpu.h"
#include "backend/reference/reference.h"
#include "maker_data.h"
#include "model_run.h"

namespace talon::makers_golden_test {
namespace {

constexpr double kFloat32 = 3e-4;  // the README's bound of a float32 engine
constexpr int kContext = 320;

/// What a family's recordings are compared with beside the bound of a float32 engine.
struct Family {
  std::string name;
  double mean = 0.02;     // of the differences of a backend that rounds its inputs
  int short_context = 0;  // of the shorter sequences, where the configuration depends on it
};

void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

const Family kFamilies[] = {{"mistral"},
                            {"phi3", 0.02, 256},
                            {"ministral3"},
                            {"olmo3"},
                            {"granite"},
                            {"glm4"},
                            {"cohere2"},
                            {"gpt_neox"},
                            {"gemma2"},
                            {"gemma3"},
                            {"gemma4"},
                            {"gemma4_e"},
                            {"gemma4_moe", 0.1},
                            {"qwen3_moe", 0.1},
                            {"gpt_oss", 0.1},
                            {"glm4_moe", 0.1},
                            {"llama4", 0.1},
                            {"deepseek_v3", 0.1},
                            {"qwen3_next", 0.1},
                            {"qwen3_5"},
                            {"mixtral", 0.1},
                            {"qwen2_moe", 0.1},
                            {"smollm3"},
                            {"olmo2"},
                            {"starcoder2"},
                            {"granitemoeshared", 0.1},
                            {"granite4"},
                            {"granite4_moe", 0.1},
                            {"deepseek_v2", 0.1},
                            {"deepseek_v2_lite", 0.1},
                            {"qwen3_5_moe", 0.1},
                            {"mimo", 0.1},
                            {"olmoe", 0.1},
                            {"exaone4"},
                            {"seed_oss"},
                            {"ernie4_5"},
                            {"ernie4_5_moe", 0.1},
                            {"glm4_moe_lite", 0.1},
                            {"qwen3_vl"},
                            {"qwen3_vl_moe", 0.1},
                            {"qwen2_5_vl"},
                            {"gemma"},
                            {"cohere"},
                            {"glm"},
                            {"stablelm"},
                            {"minicpm"},
                            {"hunyuan"},
                            {"arcee"},
                            {"nemotron"},
                            {"command_r_plus"},
                            {"stablelm_12b"},
                            {"phi2"},
                            {"phi2_norms"},
                            {"arcee_bias"},
                            {"nemotron_bias"},
                            {"llama_bias"},
                            {"mistral4", 0.1},
                            {"granite4_hybrid"},
                            {"granite4_hybrid_moe", 0.1},
                            {"bamba"},
                            {"falcon_h1"},
                            {"falcon_h1_norm"},
                            {"nemotron_h"},
                            {"nemotron_h_moe", 0.1},
                            {"lfm2"},
                            {"lfm2_moe", 0.1},
                            {"apertus"},
                            {"minimax_m2", 0.1},
                            {"hunyuan_moe", 0.1},
                            {"exaone_moe", 0.1},
                            {"dots1", 0.1},
                            {"afmoe", 0.1},
                            {"mellum", 0.1},
                            {"bailing_moe", 0.1},
                            {"hy_v3", 0.1},
                            {"phimoe", 0.1, 128}};

/// How far an engine is from the recording, teacher-forced over the text and its continuation.
struct Distance {
  double largest = 0, sum = 0;
  long values = 0;
  int greedy_missed = 0;             // of all
  double largest_missed_margin = 0;  // recorded
  double mean() const { return sum / static_cast<double>(std::max(values, 1L)); }
};

class MakersGolden : public testing::TestWithParam<Family> {
 protected:
  using MakeBackend = std::unique_ptr<Backend> (*)();
  using Rows = std::vector<std::vector<float>>;

  static const MakerRecording& recording(const std::string& family) {
    static std::map<std::string, MakerRecording> unpacked;
    if (!unpacked.contains(family)) unpacked[family] = unpack_maker(family);
    return unpacked[family];
  }

  /// All rows of a sequence and its greedy continuation.
  static Rows run(const std::filesystem::path& model, MakeBackend make, const MakerSequence& s,
                  int context) {
    LoadOptions options;
    options.context = context;
    ModelRun run(model, make(), KvType::f32, kContext, {}, options);
    std::vector<TokenId> ids = s.ids;
    ids.insert(ids.end(), s.greedy.begin(), s.greedy.end() - 1);
    Rows rows;
    run.run(ids, 0, [&](int, std::span<const float> logits) {
      rows.emplace_back(logits.begin(), logits.end());
    });
    return rows;
  }

  static void compare(const Rows& rows, const MakerSequence& s, const Rows& expected,
                      Distance& total) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto& row = rows[s.ids.size() - expected.size() + i];
      for (std::size_t j = 0; j < row.size(); ++j) {
        const double difference = std::fabs(double{row[j]} - expected[i][j]);
        if (!(difference <= total.largest)) total.largest = difference;
        total.sum += difference;
        ++total.values;
      }
    }
    for (std::size_t i = 0; i < s.greedy.size(); ++i) {
      const auto& row = rows[s.ids.size() - 1 + i];
      const auto best = std::max_element(row.begin(), row.end()) - row.begin();
      if (best == s.greedy[i]) continue;
      ++total.greedy_missed;
      total.largest_missed_margin = std::max(total.largest_missed_margin, double{s.margin[i]});
    }
  }

  static int context_of(std::size_t sequence) {
    return sequence < 2 ? GetParam().short_context : 0;
  }
  Distance distance(const std::filesystem::path& model, MakeBackend make) {
    Distance total;
    const auto& sequences = recording(GetParam().name).sequences;
    for (std::size_t k = 0; k < sequences.size(); ++k) {
      const MakerSequence& s = sequences[k];
      const bool other = model.extension() == ".gguf" && !s.gguf_logits.empty();
      compare(run(model, make, s, context_of(k)), s, other ? s.gguf_logits : s.logits, total);
    }
    return total;
  }
};

std::unique_ptr<Backend> reference() { return make_reference_backend(2); }
std::unique_ptr<Backend> fine() {
  return make_cpu_backend({.threads = 2, .activations = Activations::bits16, .pin = false});
}
std::unique_ptr<Backend> rounded() {
  return make_cpu_backend({.threads = 2, .activations = Activations::mixed, .pin = false});
}

TEST_P(MakersGolden, ReferenceGivesTheMakersLogitsAndTokens) {
  const MakerRecording& files = recording(GetParam().name);
  for (const auto& model : {files.folder, files.gguf}) {
    if (model.empty()) continue;
    const Distance d = distance(model, reference);
    EXPECT_LE(d.largest, kFloat32) << model;
    if (model == files.folder || files.sequences[0].gguf_logits.empty()) {
      EXPECT_EQ(d.greedy_missed, 0) << model;
    }
  }
}

TEST_P(MakersGolden, FolderAndGgufGiveTheSameBytes) {
  const MakerRecording& files = recording(GetParam().name);
  if (files.gguf.empty()) GTEST_SKIP() << "GGUF has no such family";
  if (!files.sequences[0].gguf_logits.empty()) GTEST_SKIP() << "the GGUF cannot say the same";
  if (GetParam().name.starts_with("qwen3_5"))
    GTEST_SKIP() << "the GGUF has another order of value heads";
  for (const MakeBackend make : {reference, rounded}) {
    const MakerSequence& s = files.sequences[1];
    EXPECT_TRUE(run(files.folder, make, s, 0) == run(files.gguf, make, s, 0));
  }
}

TEST_P(MakersGolden, CpuStaysWithinTheStatedMean) {
  const Distance d = distance(recording(GetParam().name).folder, fine);
  RecordProperty("mean", std::to_string(d.mean()));
  EXPECT_LE(d.mean(), GetParam().mean);
  EXPECT_LE(d.largest_missed_margin, 0.5);
  const Distance r = distance(recording(GetParam().name).folder, rounded);
  EXPECT_LE(r.mean(), 8 * GetParam().mean);
}

INSTANTIATE_TEST_SUITE_P(Families, MakersGolden, testing::ValuesIn(kFamilies),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace talon::makers_golden_test
