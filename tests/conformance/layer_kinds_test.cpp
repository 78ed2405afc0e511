#include <gtest/gtest.h>

#include "../golden/maker_data.h"
#include "exactness.h"
#include "io/test_files.h"
#include "models.h"
#include "random_heads.h"
#include "row_bytes.h"

namespace talon::test {
namespace {

/// A tiny random model of each kind of layer: docs/models.md says what each has.
class LayerKinds : public testing::TestWithParam<std::string> {
 protected:
  ExactnessPlan plan_of(const MakerRecording& model,
                        std::unique_ptr<Backend> (*make_backend)(int)) const {
    ExactnessPlan plan;
    plan.model = model.folder;
    plan.make_backend = make_backend;
    for (const MakerSequence& sequence : model.sequences) plan.prompts.push_back(sequence.ids);
    plan.samplers = {{}, {.temperature = 0.8F}};
    plan.policies = {"fixed"};
    plan.strength = 2;
    return plan;
  }

  TemporaryFolder folder_;
};

/// Every drafter of the table that needs no other model, with random heads.
TEST_P(LayerKinds, NoDrafterChunkThreadOrCompanyChangesAToken) {
  const MakerRecording model = unpack_maker(GetParam());
  ExactnessPlan plan = plan_of(model, cpu_backend);
  plan.heads = write_random_heads(folder_.path(), read_model_config(open_checkpoint(model.folder)));
  plan.heads.push_back(model.folder);  // for mtp
  plan.hits = {0.5, 1};
  plan.chunks = {1, 7, 1024};
  plan.max_new = 12;
  const ExactnessReport report = check_exactness(plan);
  EXPECT_GE(report.cases, 40);
  EXPECT_GT(report.tau.at("random-tree:hit=1 fixed"), 2.5);  // drafts are accepted
  for (const std::string& line : report.differences) ADD_FAILURE() << line;
}

TEST_P(LayerKinds, NorOnTheReference) {
  const MakerRecording model = unpack_maker(GetParam());
  ExactnessPlan plan = plan_of(model, reference_backend);
  plan.samplers.resize(1);
  plan.drafters = {"ngram"};
  plan.hits = {1};
  plan.chunks = {7};
  plan.max_new = 8;
  const ExactnessReport report = check_exactness(plan);
  EXPECT_GT(report.cases, 0);
  for (const std::string& line : report.differences) ADD_FAILURE() << line;
}

TEST_P(LayerKinds, RowsInTreesAndBesideOthersHaveTheirBytes) {
  TestModel model(unpack_maker(GetParam()).folder, cpu_backend(2));
  for (const std::string& difference : differing_rows(model, 5, 90)) ADD_FAILURE() << difference;
}

INSTANTIATE_TEST_SUITE_P(
    Models, LayerKinds,
    testing::Values("gemma2",       // windows, caps
                    "cohere2",      // parallel halves, layers that do not turn
                    "ministral3",   // queries scaled by position
                    "gpt_oss",      // experts, sinks
                    "qwen3_moe",    // experts, head norms
                    "llama4",       // chunks, experts whose input is weighed, a shared expert
                    "deepseek_v3",  // latents, groups of experts
                    "gemma4_e",     // two head sizes, shared cache layers, per-layer embeddings
                    "qwen3_next",   // states, gated attention, a gated shared expert
                    "qwen3_5"),     // states
    [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace talon::test
