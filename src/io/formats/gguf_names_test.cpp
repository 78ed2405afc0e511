#include "io/formats/gguf_names.h"

#include <gtest/gtest.h>

namespace talon::gguf_names_test {
namespace {

TEST(GgufNames, OfSeveralPartsAreOpenedByTheFirst) {
  EXPECT_EQ(stem_of_gguf("a/big-00002-of-00003.gguf"), "a/big");
  EXPECT_EQ(stem_of_gguf("big-0002-of-00003.gguf"), "big-0002-of-00003.gguf");
  EXPECT_EQ(stem_of_gguf("-00002-of-00003.gguf"), "-00002-of-00003.gguf");
  EXPECT_TRUE(is_model_file("big-00001-of-00003.gguf"));
  EXPECT_FALSE(is_model_file("big-00002-of-00003.gguf"));
  EXPECT_TRUE(is_further_part("big-00003-of-00003.gguf"));
}

TEST(GgufNames, AreNotHeadsNorProjectors) {
  EXPECT_TRUE(is_model_file("Qwen3-8B-Q4_K_M.gguf"));
  EXPECT_FALSE(is_model_file("Qwen3-8B-EAGLE3-f16.gguf"));
  EXPECT_TRUE(is_head_file("Qwen3-8B-EAGLE3-f16.gguf"));
  EXPECT_FALSE(is_model_file("mmproj-model-f16.gguf"));
  EXPECT_FALSE(is_model_file("config.json"));
}

TEST(GgufNames, OfPredictionLayersBeginWithMtpAndModelsThatKeepTheirsMayHaveItElsewhere) {
  for (const char* name : {"mtp-m-Q8_0.gguf", "MTP/mtp-m.gguf", "m-DSpark-BF16.gguf"}) {
    EXPECT_TRUE(is_head_file(name)) << name;
    EXPECT_FALSE(is_model_file(name)) << name;
  }
  for (const char* name :
       {"m-MTP-Q8_0.gguf", "m-Q8_0-mtp.gguf", "mtp-files/m.gguf", "mtp.gguf", "smtp-m.gguf"}) {
    EXPECT_FALSE(is_head_file(name)) << name;
    EXPECT_TRUE(is_model_file(name)) << name;
  }
}

TEST(GgufNames, WhereThereIsNoModelWhatIsCalledAHeadStandsForTheFolder) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(models_among({"eagle3.gguf", "Q4/m.gguf", "mmproj.gguf"}), Names{"Q4/m.gguf"});
  EXPECT_EQ(models_among({"Eagle-7B-00002-of-00002.gguf", "Eagle-7B-00001-of-00002.gguf"}),
            Names{"Eagle-7B-00001-of-00002.gguf"});
  EXPECT_EQ(models_among({"README.md"}), Names{});
}

TEST(GgufNames, BesideAModelAnImportanceMatrixIsNone) {
  using Names = std::vector<std::string>;
  for (const char* matrix : {"imatrix_unsloth.gguf", "m-imatrix.gguf", "all/imatrix-m-Q8_0.gguf"}) {
    EXPECT_EQ(models_among({matrix, "m-Q8_0.gguf"}), Names{"m-Q8_0.gguf"}) << matrix;
    EXPECT_EQ(parts_among({matrix, "m-Q8_0.gguf"}, "q8_0"), Names{"m-Q8_0.gguf"}) << matrix;
    EXPECT_EQ(models_among({matrix}), Names{matrix}) << "models are called so, too";
  }
  EXPECT_EQ(models_among({"m-imatrix-Q4_0.gguf", "m-Q8_0.gguf"}).size(), 2u);
}

TEST(GgufNames, ANameStandsForAllPartsOfItsModel) {
  using Names = std::vector<std::string>;
  const Names files = {"a/m-00002-of-00002.gguf", "a/m-00001-of-00002.gguf", "b/m.gguf"};
  const Names parts = {"a/m-00001-of-00002.gguf", "a/m-00002-of-00002.gguf"};
  EXPECT_EQ(parts_among(files, "a/m-00002-of-00002.gguf"), parts);
  EXPECT_EQ(parts_among(files, "b/m.gguf"), Names{"b/m.gguf"});
  EXPECT_EQ(parts_among(files, "m.gguf"), Names{});
}

TEST(GgufNames, AQuantisationStandsForTheOnlyModelThatHasIt) {
  using Names = std::vector<std::string>;
  const Names files = {"m-Q4_K_M.gguf",
                       "m-Q8_0-00001-of-00002.gguf",
                       "m-Q8_0-00002-of-00002.gguf",
                       "m-IQ4_XS.gguf",
                       "m.f16.gguf",
                       "other.f16.gguf",
                       "m-EAGLE3-Q6_K.gguf",
                       "mtp-m-Q4_K_M.gguf"};
  EXPECT_EQ(parts_among(files, "Q4_K_M"), Names{"m-Q4_K_M.gguf"});
  EXPECT_EQ(parts_among(files, "q8_0"),
            (Names{"m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf"}));
  EXPECT_EQ(parts_among(files, "4_XS"), Names{}) << "part of a word";
  EXPECT_EQ(parts_among(files, "f16"), Names{}) << "two have it";
  EXPECT_EQ(parts_among(files, "Q6_K"), Names{}) << "a head";
  EXPECT_EQ(parts_among(files, ""), Names{});
}

}  // namespace
}  // namespace talon::gguf_names_test
