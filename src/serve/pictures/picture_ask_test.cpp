#include "serve/pictures/picture_ask.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io/checkpoint.h"
#include "io/test_pictures.h"

namespace talon::picture_ask_test {
namespace {

PngTexts texts_by(const std::string& served, const std::string& asked) {
  ServedModel model;
  model.name = "icons";
  VqDecoder decoder(open_checkpoint(test::unpack_picture("talon_picture_ask", "vq.pt")), 4, 4);
  model.pictures = std::make_unique<PictureStudio>(std::move(decoder), PromptChoices{}, served);
  AnswerFields answer;
  answer.method.verify = asked;
  return texts_of(facts_of({}, answer, model, "jacobi", 0));
}

bool says(const PngTexts& texts, const std::string& verify) {
  return std::ranges::find(texts, std::pair<std::string, std::string>("verify", verify)) !=
         texts.end();
}

TEST(PictureFile, SaysTheRuleThatDrewItWhoeverNamedIt) {
  EXPECT_TRUE(says(texts_by("epsilon:e=0.1", ""), "epsilon:e=0.1"));
  EXPECT_TRUE(says(texts_by("epsilon:e=0.1", "epsilon:e=0.2"), "epsilon:e=0.2"));
  EXPECT_TRUE(says(texts_by("follow", "epsilon:e=0.2"), "epsilon:e=0.2"));
  const PngTexts exact = texts_by("epsilon:e=0.1", "follow");
  EXPECT_EQ(std::ranges::find(exact, "verify", &PngTexts::value_type::first), exact.end());
}

}  // namespace
}  // namespace talon::picture_ask_test
