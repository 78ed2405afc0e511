#include "serve/pictures/picture_ask.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io/checkpoint.h"
#include "io/test_pictures.h"

namespace talon::picture_ask_test {
namespace {

PngTexts texts_by(const std::string& served, const std::string& asked,
                  const std::string& policy = "") {
  ServedModel model;
  model.name = "icons";
  VqDecoder decoder(open_checkpoint(test::unpack_picture("talon_picture_ask", "vq.pt")), 4, 4);
  PictureFacts usual;
  usual.verify = served;
  usual.policy = "throughput";
  model.pictures = std::make_unique<PictureStudio>(std::move(decoder), PromptChoices{}, usual);
  AnswerFields answer;
  answer.method.verify = asked;
  answer.method.policy = policy;
  return texts_of(facts_of({}, answer, model, "jacobi", 0));
}

bool says(const PngTexts& texts, const std::string& value, const std::string& key = "verify") {
  return std::ranges::find(texts, std::pair(key, value)) != texts.end();
}

TEST(PictureFile, SaysTheRuleThatDrewItWhoeverNamedIt) {
  EXPECT_TRUE(says(texts_by("epsilon:e=0.1", ""), "epsilon:e=0.1"));
  EXPECT_TRUE(says(texts_by("epsilon:e=0.1", "epsilon:e=0.2"), "epsilon:e=0.2"));
  EXPECT_TRUE(says(texts_by("follow", "epsilon:e=0.2"), "epsilon:e=0.2"));
  const PngTexts exact = texts_by("epsilon:e=0.1", "follow");
  EXPECT_EQ(std::ranges::find(exact, "verify", &PngTexts::value_type::first), exact.end());
}

TEST(PictureFile, SaysThePolicyBesideARuleThatRelaxesWhoeverNamedIt) {
  EXPECT_TRUE(says(texts_by("epsilon:e=0.1", ""), "throughput", "policy"));
  EXPECT_TRUE(says(texts_by("follow", "epsilon:e=0.2", "fixed"), "fixed", "policy"));
}

}  // namespace
}  // namespace talon::picture_ask_test
