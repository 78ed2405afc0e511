#include "draw/usual_sampling.h"

#include <gtest/gtest.h>

#include "io/checkpoint.h"
#include "io/test_pictures.h"

namespace talon::usual_sampling_test {
namespace {

namespace fs = std::filesystem;

/// Of a tiny model, or of one of its family with as many codes.
UsualSampling of(const std::string& name, int codes = 0) {
  const fs::path file = test::unpack_picture("talon_usual_sampling", name);
  const bool is_folder = fs::exists(file.parent_path() / "config.json");
  Checkpoint checkpoint = open_checkpoint(is_folder ? file.parent_path() : file);
  if (!is_folder) checkpoint.metadata["grid"] = 4;
  ModelConfig config = read_model_config(checkpoint);
  if (codes > 0) config.vocabulary = codes + (config.image->row_end < 0 ? 0 : 1);
  return usual_sampling(config);
}

TEST(UsualSampling, IsThatOfTheFamily) {
  constexpr int kCodes = 16384;
  const auto expect = [](const std::string& name, double guidance, int top_k) {
    const UsualSampling usual = of(name, kCodes);
    EXPECT_EQ(usual.guidance, guidance) << name;
    EXPECT_EQ(usual.top_k, top_k) << name;
  };
  expect("c2i.pt", 4, 2000);
  expect("t2i_256.pt", 7.5, 1000);
  expect("lantern/model.safetensors", 3, 2000);
  expect("anole/model.safetensors", 3, 2000);
  expect("lumina/model.safetensors", 3, 2000);
  expect("janus/model.safetensors", 5, 0);
  expect("words/model.safetensors", 2, 0);
}

TEST(UsualSampling, CutsToNoMoreCodesThanThereAre) {
  EXPECT_EQ(of("c2i.pt").top_k, 0);
  EXPECT_EQ(of("c2i.pt").guidance, 4);
  for (const char* name : {"c2i.pt", "lumina/model.safetensors"}) {
    EXPECT_EQ(of(name, 2000).top_k, 0) << name;
    EXPECT_EQ(of(name, 2001).top_k, 2000) << name;
  }
}

}  // namespace
}  // namespace talon::usual_sampling_test
