#include "model/load/load_layer.h"

#include <gtest/gtest.h>

#include "io/test_files.h"
#include "model/load/test_folder.h"

namespace talon::load_layer_test {
namespace {

/// Apertus with nothing but the numbers of its activation.
class XieluNumbers : public FolderOfParts {
 protected:
  static std::string name(int layer, const std::string& part) {
    return fmt::format("model.layers.{}.mlp.act_fn.{}", layer, part);
  }
  StoredXielu stored(int layer) {
    ModelConfig config;
    config.architecture = "apertus";
    config.layers = 2;
    config.plans.resize(2);
    TensorLoader tensors(folder_, *backend_, options_);
    LayerLoader layers(tensors, config);
    return layers.stored_xielu(layer);
  }
};

TEST_F(XieluNumbers, OfAFolderAreVectorsOrScalarsAndBuffersMayBeMissing) {
  add(name(1, "alpha_p"), StorageType::f32, {1}, std::vector<float>{0.25F});
  add(name(1, "alpha_n"), StorageType::f32, {}, std::vector<float>{-1.5F});
  EXPECT_EQ(stored(1).alpha_p, 0.25F);
  EXPECT_EQ(stored(1).alpha_n, -1.5F);
  EXPECT_EQ(stored(1).beta, 0.5F);
  EXPECT_EQ(stored(1).epsilon, -1e-6F);
  add(name(1, "beta"), StorageType::f32, {}, std::vector<float>{0.75F});
  add(name(1, "eps"), StorageType::f32, {1}, std::vector<float>{-2e-6F});
  EXPECT_EQ(stored(1).beta, 0.75F);
  EXPECT_EQ(stored(1).epsilon, -2e-6F);
}

TEST_F(XieluNumbers, ThatAreMissingOrOfAnotherShapeAreNamed) {
  expect_holds(test::message_of([&] { stored(0); }), {name(0, "alpha_p")});
  add(name(0, "alpha_p"), StorageType::f32, {2}, std::vector<float>{1, 2});
  expect_holds(test::message_of([&] { stored(0); }), {name(0, "alpha_p"), "expected [1]"});
}

TEST_F(XieluNumbers, OfAGgufFileAreListedByLayers) {
  folder_.format = CheckpointFormat::gguf;
  folder_.metadata = {{"xielu.alpha_p", {1.5, 2.5}}, {"xielu.alpha_n", 3.5}};
  EXPECT_EQ(stored(0).alpha_p, 1.5F);
  EXPECT_EQ(stored(1).alpha_p, 2.5F);
  EXPECT_EQ(stored(1).alpha_n, 3.5F);
  EXPECT_EQ(stored(1).beta, 0.5F);
}

}  // namespace
}  // namespace talon::load_layer_test
