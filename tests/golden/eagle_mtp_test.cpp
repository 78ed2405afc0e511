#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "backend/reference/reference.h"
#include "core/error.h"
#include "draft/head/head_network.h"
#include "draft/mtp/mtp_weights.h"
#include "maker_data.h"
#include "model/row_layout.h"

namespace talon::eagle_mtp_test {
namespace {

std::vector<float> flat(const std::vector<std::vector<float>>& rows) {
  std::vector<float> values;
  for (const auto& row : rows) values.insert(values.end(), row.begin(), row.end());
  return values;
}

/// The prediction layer of a tiny model (tests/data/golden/makers), fed with the recorded features
/// of the target.
class MtpGolden : public testing::TestWithParam<std::string> {
 protected:
  /// Logits of all recorded rows.
  static std::vector<float> logits(const std::filesystem::path& path, const MakerSequence& s) {
    const auto backend = make_reference_backend(2);
    const Checkpoint file = open_checkpoint(path);
    const Model target = load_model(file, *backend);
    const HeadWeights head = load_mtp(file, target, WeightLayout::f32);
    const int rows = static_cast<int>(s.mtp_logits.size());
    HeadNetwork network(head, {}, rows, 64);
    KvShape shape{1, head.config.kv_heads, head.config.head_dim, 1, KvType::f32};
    shape.widths = {{shape.kv_heads, shape.head_dim, head.plan->values()}};
    KvCache cache(*backend, shape);
    KvSequence sequence = cache.start({}, false);
    EXPECT_TRUE(sequence.reserve(rows));
    const auto tokens = std::span(s.ids).subspan(1, static_cast<std::size_t>(rows));
    const SequenceRows part{.sequence = &sequence, .tokens = tokens, .parents = {}};
    AttentionLayout layout;
    lay_out_rows({&part, 1}, layout);
    const Buffer features = backend->allocate(rows, target.config.hidden);
    const auto recorded = flat(s.final);
    backend->upload(std::span(recorded).first(recorded.size() - s.final.back().size()),
                    features.view());
    const Buffer out = backend->allocate(rows, target.config.hidden);
    network.forward({.tokens = tokens,
                     .layout = &layout,
                     .cache = &cache.store(),
                     .features = features.view(),
                     .from_target = true,
                     .out = out.view()});
    const Buffer scores = backend->allocate(rows, target.config.vocabulary);
    const Projection output[] = {{head.output, scores.view()}};
    backend->linear({.input = out.view(), .outputs = output});
    std::vector<float> values(static_cast<std::size_t>(rows * target.config.vocabulary));
    backend->download(scores.view(), values);
    return values;
  }
};

TEST_P(MtpGolden, GivesTheMakersLogitsFromFolderAndGguf) {
  const MakerRecording files = unpack_maker(GetParam());
  const MakerSequence& s = files.sequences[0];
  const std::vector<float> expected = flat(s.mtp_logits);
  ASSERT_FALSE(expected.empty() || s.final.empty());
  for (const auto& path : {files.folder, files.gguf, files.mtp_gguf}) {
    if (path.empty()) continue;
    if (path == files.gguf && GetParam() != "glm4_moe" && GetParam() != "qwen3_5") {
      EXPECT_THROW(logits(path, s), Error);  // converters leave the layer out
      continue;
    }
    const std::vector<float> found = logits(path, s);
    double largest = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::fabs(double{found[i]} - expected[i]));
    }
    EXPECT_LE(largest, 3e-4) << path;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, MtpGolden,
                         testing::Values("deepseek_v3", "glm4_moe", "qwen3_next", "qwen3_5",
                                         "mimo"),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace talon::eagle_mtp_test
