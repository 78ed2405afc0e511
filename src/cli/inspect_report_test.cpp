#include "cli/inspect_report.h"

#include <gtest/gtest.h>

#include <deque>
#include <fstream>
#include <span>
#include <vector>

#include "io/test_pictures.h"

namespace talon::inspect_report_test {
namespace {

Json tensor_of_report(const Json& report, const std::string& name) {
  for (const Json& tensor : report["tensors"]) {
    if (tensor["name"] == name) return tensor;
  }
  return Json::object();
}

ModelOptions one_thread() {
  ModelOptions options;
  options.threads = 1;
  return options;
}

/// A folder of compressed-tensors: each matrix of a layer as bytes with one scale.
TEST(InspectReport, CountsMatricesInPartsAsWhatTheyBecome) {
  Checkpoint folder = open_checkpoint(TALON_TEST_DATA "/golden/families/qwen3");
  std::deque<std::vector<std::byte>> made;
  const float scale = 0.001F;
  std::vector<StoredTensor> scales;
  for (StoredTensor& tensor : folder.tensors) {
    if (!tensor.name.ends_with("_proj.weight")) continue;
    const auto values = static_cast<std::size_t>(tensor.shape[0] * tensor.shape[1]);
    tensor.type = StorageType::i8;
    tensor.bytes = made.emplace_back(values, std::byte{100});
    scales.push_back(
        {tensor.name + "_scale", StorageType::f32, {1}, std::as_bytes(std::span(&scale, 1))});
  }
  folder.tensors.insert(folder.tensors.end(), scales.begin(), scales.end());
  const Json weights = {{"num_bits", 8}, {"strategy", "tensor"}};
  folder.metadata["quantization_config"] = {{"quant_method", "compressed-tensors"},
                                            {"format", "int-quantized"},
                                            {"config_groups", {{"all", {{"weights", weights}}}}}};
  const Json report = inspect_checkpoint(folder, one_thread());
  EXPECT_FALSE(report.contains("load_problem")) << report["load_problem"];
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  const Json matrix = tensor_of_report(report, name);
  ASSERT_TRUE(matrix.contains("kept_bytes"));
  ASSERT_GT(matrix.value("bytes", 0U), 0U);
  EXPECT_GE(matrix.value("kept_bytes", 0U), matrix.value("bytes", 0U)) << matrix;
  EXPECT_EQ(tensor_of_report(report, name + "_scale").value("kept", ""), "not kept");
  EXPECT_EQ(tensor_of_report(report, "model.norm.weight").value("kept_bytes", 0U), 4U * 32U);
}

TEST(InspectReport, CountsAStackOfBlocksAsItIsKeptWhereNoConfigurationIsKnown) {
  constexpr std::size_t kMatrices = 4, kRows = 32, kCols = 64;
  const BlockShape block = block_shape(StorageType::q4_0);
  const std::vector<std::byte> zeros(kMatrices * kRows * kCols / block.elements * block.bytes);
  const Checkpoint file{.format = CheckpointFormat::gguf,
                        .path = "file",
                        .metadata = {{"general.architecture", "unheard of"}},
                        .tensors = {{"a.weight", StorageType::q4_0, {4, 32, 64}, zeros}},
                        .files = {},
                        .owned = {}};
  const Json stack = tensor_of_report(inspect_checkpoint(file, one_thread()), "a.weight");
  EXPECT_EQ(stack.value("kept_bytes", std::size_t{0}), zeros.size()) << stack;
}

/// As it is with a tensor that nobody reads.
TEST(InspectReport, SaysWhyAModelDoesNotLoadAndCountsItsTensorsAllTheSame) {
  Checkpoint folder = open_checkpoint(TALON_TEST_DATA "/golden/families/qwen3");
  folder.tensors.push_back(folder.require("model.layers.0.mlp.up_proj.weight"));
  folder.tensors.back().name = "model.layers.0.mlp.other.weight";
  const Json report = inspect_checkpoint(folder, one_thread());
  EXPECT_NE(report.value("load_problem", "").find("other.weight"), std::string::npos) << report;
  EXPECT_NE(inspect_text(report).find("does not load: "), std::string::npos);
  const Json kept = tensor_of_report(report, "model.layers.0.mlp.other.weight");
  EXPECT_GT(kept.value("kept_bytes", 0U), 0U) << kept;
}

std::filesystem::path unpack(const std::string& name) {
  return test::unpack_picture("talon_inspect_report", name);
}

Json config_of(const std::filesystem::path& file) {
  return inspect_checkpoint(open_checkpoint(file), one_thread())["config"];
}

TEST(InspectReport, ShowsPathsOfAnyBytes) {
  const Json report = {
      {"path", "model"},          {"format", "GGUF"},
      {"config", Json::object()}, {"tokenizer", nullptr},
      {"activations", nullptr},   {"kept", Json::array()},
      {"tensors", Json::array()}, {"drafts", {{"heads", {{"eagle3", "caf\xE9"}}}}}};
  EXPECT_NE(inspect_text(report).find("eagle3"), std::string::npos);
}

TEST(InspectReport, NamesATokenizerOfPicturesAlone) {
  const Json llamagen = config_of(unpack("vq.pt"));
  EXPECT_EQ(llamagen["architecture"], "tokenizer of pictures (VQ)") << llamagen;
  EXPECT_EQ(llamagen["layout"], "LlamaGen");
  EXPECT_EQ(llamagen["codebook"].size(), 2U);
  EXPECT_EQ(llamagen["cell_pixels"], 2);
  EXPECT_EQ(llamagen["decoder"], true);
  const Json chameleon = config_of(unpack("chameleon_vq.pt"));
  EXPECT_EQ(chameleon["layout"], "Chameleon") << chameleon;
  EXPECT_EQ(chameleon["decoder"], true);
}

/// Of words and the tokenizer of pictures, none, one and both lie beside the model.
TEST(InspectReport, SaysWhatAModelOfWordsLacks) {
  const auto folder = unpack("words/model.safetensors").parent_path();
  std::filesystem::remove(folder / "words.json");
  std::filesystem::remove(folder / "vq.safetensors");
  const auto pictures = [&] {
    return inspect_checkpoint(open_checkpoint(folder), one_thread())["pictures"];
  };
  EXPECT_TRUE(pictures()["layout"].get<std::string>().starts_with("LlamaGen with words"));
  EXPECT_EQ(pictures()["missing"], Json::array({"vq", "words"}));
  std::filesystem::copy_file(test::kPictureGoldens / "words/words.json", folder / "words.json");
  EXPECT_EQ(pictures()["missing"], Json::array({"vq"}));
  std::ofstream(folder / "vq.safetensors") << "a tokenizer";
  EXPECT_EQ(pictures()["missing"], Json::array());
  std::filesystem::remove(folder / "vq.safetensors");
}

TEST(InspectReport, NamesTheLayoutOfModelsThatDraw) {
  Checkpoint classes = open_checkpoint(unpack("c2i.pt"));
  classes.metadata["grid"] = 4;
  const Json of_classes = inspect_checkpoint(classes, one_thread())["pictures"];
  EXPECT_EQ(of_classes["layout"], "LlamaGen, classes") << of_classes;
  EXPECT_TRUE(of_classes["class_names"].is_null());
  const Json of_captions =
      inspect_checkpoint(open_checkpoint(unpack("t2i_256.pt")), one_thread())["pictures"];
  EXPECT_EQ(of_captions["layout"], "LlamaGen, captions");
  EXPECT_EQ(of_captions["missing"].back(), "features of captions (--caption-features)");
  for (const auto& [name, layout] : {std::pair<std::string, std::string>("anole", "Chameleon"),
                                     {"lumina", "Lumina-mGPT"},
                                     {"janus", "Janus"},
                                     {"lantern", "LlamaGen, captions, of LANTERN"}}) {
    const auto folder = unpack(name + "/model.safetensors").parent_path();
    const Json report = inspect_checkpoint(open_checkpoint(folder), one_thread());
    EXPECT_EQ(report["pictures"]["layout"], layout) << report["config"];
    if (name == "lantern") continue;
    EXPECT_EQ(report["pictures"]["missing"].back(), "tokenizer") << name;
    EXPECT_NE(inspect_text(report).find("missing "), std::string::npos);
  }
}

}  // namespace
}  // namespace talon::inspect_report_test
