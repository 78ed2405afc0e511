#include <gtest/gtest.h>

#include <deque>

#include "backend/reference/reference.h"
#include "core/error.h"
#include "io/test_pictures.h"
#include "model/model.h"

namespace talon::other_tensors_test {
namespace {

constexpr int kHidden = 64;

class OtherTensors : public testing::Test {
 protected:
  /// Adds a tensor of that many values; value: of the last of them.
  void add(const std::string& name, std::vector<std::int64_t> shape, float value) {
    std::size_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    values_.emplace_back(count).back() = value;
    checkpoint_.tensors.push_back(
        {name, StorageType::f32, std::move(shape), std::as_bytes(std::span(values_.back()))});
  }
  std::string refusal() {
    try {
      load_model(checkpoint_, *backend_, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::unique_ptr<Backend> backend_ = make_reference_backend(1);
  Checkpoint checkpoint_ = open_checkpoint(TALON_TEST_DATA "/golden/stories260k/target");
  std::deque<std::vector<float>> values_;
};

TEST_F(OtherTensors, OfOtherPartsAndWithoutEffectArePassedOver) {
  add("model.visual.blocks.0.norm.weight", {kHidden}, 1);
  add("model.layers.0.self_attn.rotary_emb.inv_freq", {4}, 1);
  add("model.layers.0.self_attn.q_proj.bias", {kHidden}, 0);
  add("model.layers.0.self_attn.bias", {1, 1, 4, 4}, 1);
  EXPECT_EQ(refusal(), "");
}

TEST_F(OtherTensors, OfTheTextAreRefusedByName) {
  for (const char* name :
       {"model.layers.0.self_attn.q_proj.bias", "model.layers.1.mlp.shared.weight",
        "model.layers.1.self_attn.sinks", "lm_head.bias", "model.norm.bias",
        "model.layers.0.self_attn.q_proj.scale", "lm_head.scale"}) {
    add(name, {kHidden}, 1);
    EXPECT_TRUE(refusal().find(name) != std::string::npos) << refusal();
    checkpoint_.tensors.pop_back();
  }
}

TEST_F(OtherTensors, OfPicturesAreRefusedByName) {
  const auto model = test::unpack_picture("talon_other_tensors", "words/model.safetensors");
  checkpoint_ = open_checkpoint(model.parent_path());
  add("freqs_cis", {4, 4}, 1);
  add("layers.0.attention.wo.bias", {kHidden}, 0);
  EXPECT_EQ(refusal(), "");
  for (const char* name : {"layers.0.attention.wqkv.bias", "layers.1.attention.q_norm.weight",
                           "layers.2.attention_norm.weight", "norm.bias", "output.bias"}) {
    add(name, {kHidden}, 1);
    EXPECT_TRUE(refusal().find(name) != std::string::npos) << refusal();
    checkpoint_.tensors.pop_back();
  }
}

TEST_F(OtherTensors, OfMoreLayersThanTheConfigurationSaysAreRefused) {
  checkpoint_.metadata["num_hidden_layers"] = 1;
  EXPECT_TRUE(refusal().find("model.layers.1.") != std::string::npos) << refusal();
  EXPECT_TRUE(refusal().find("of the 1 layers") != std::string::npos) << refusal();
}

TEST_F(OtherTensors, OfALayerThatPredictsAreItsOwn) {
  const std::string layer =
      "model.layers." + checkpoint_.metadata["num_hidden_layers"].dump() + ".";
  add(layer + "eh_proj.weight", {kHidden, 2 * kHidden}, 1);
  add(layer + "mlp.up_proj.weight", {kHidden, kHidden}, 1);
  EXPECT_EQ(refusal(), "");
}

}  // namespace
}  // namespace talon::other_tensors_test
