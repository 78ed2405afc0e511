#include <fmt/format.h>
#include <unistd.h>

#include <cmath>

#include "containment.h"
#include "io/test_pictures.h"
#include "maker_data.h"

// Models with windows or experts, and such that draw pictures: with a guide, and with vectors for a
// prompt.

namespace talon::test::other_models_test {
namespace {

/// Three of four layers see 16 positions: the first page is out of their reach before the answers
/// end. All pages are in use.
class ContainmentOfNearLayers : public Containment {
 protected:
  ContainmentOfNearLayers() : Containment(unpack_maker("exaone4").folder) {
    pages_ = 6;
    chunk_ = kPageRows;
    constexpr std::size_t kTokens = 2 * kPageRows + 12;
    ask({asking(long_prompt(kTokens, {403, 407}), 5),
         asking(long_prompt(kTokens, {261, 378, 300}), 4)});
  }
};

TEST_F(ContainmentOfNearLayers, InABackendAndOfAllocations) {
  ASSERT_GT(kv_shape(model_->model.config, pages_).near.reach, 0);
  backend_may_fail_ = true;
  sweep({}, backend_->trigger, /*lasts=*/false);
  sweep({}, allocation_trigger(), /*lasts=*/false);
}

/// Each forward counts the experts of its rows.
class ContainmentOfExperts : public Containment {
 protected:
  ContainmentOfExperts() : Containment(unpack_maker("qwen3_moe").folder) {
    ask({asking({3, 9, 4, 9, 9, 7}, 4), asking({5, 1, 8}, 3)});
  }
};

TEST_F(ContainmentOfExperts, InABackendAndOfAllocations) {
  backend_may_fail_ = true;
  sweep({}, backend_->trigger, /*lasts=*/false);
  sweep({}, allocation_trigger(), /*lasts=*/false);
}

std::filesystem::path unpack(const std::string& model) {
  const std::string program = fmt::format("talon_containment_{}", getpid());
  return unpack_picture(program, model + "/model.safetensors").parent_path();
}

/// Prompts of six words.
class ContainmentOfPictures : public Containment {
 protected:
  explicit ContainmentOfPictures(const std::string& model = "words") : Containment(unpack(model)) {}

  /// Tokens of a prompt are counted from the first behind those of answers.
  Request picture(std::vector<TokenId> prompt, float guidance, double temperature) const {
    for (TokenId& token : prompt) token += model_->vocabulary();
    Request request = asking(std::move(prompt), /*max_new=*/7, temperature);
    request.guidance = guidance;
    return request;
  }
  Request of_words(TokenId first, float guidance, double temperature) const {
    Request request = picture({first, 8, 8, 8, 8, 6}, guidance, temperature);
    request.guide_prompt.assign(request.prompt.size(), model_->vocabulary() + 8);
    return request;
  }
};

TEST_F(ContainmentOfPictures, WithAGuide) {
  std::vector<Request> requests = {of_words(1, 2.5F, 1), of_words(2, 1, 0), of_words(3, 7, 0.7)};
  requests[2].guidance_tokens = 4;
  ask(std::move(requests));
  backend_may_fail_ = true;
  sweep({}, backend_->trigger, /*lasts=*/false);
  sweep({.drafter = "jacobi"}, allocation_trigger(), /*lasts=*/false);
}

/// Prompts are captions.
class ContainmentOfPromptVectors : public ContainmentOfPictures {
 protected:
  ContainmentOfPromptVectors() : ContainmentOfPictures("lantern") {}

  /// The last rows of the longest prompt, each of which a guide has something for.
  Request captioned(int rows, float guidance) const {
    const ModelConfig& config = model_->model.config;
    const int most = config.image->prompt_tokens;
    std::vector<TokenId> prompt;
    for (int row = most - rows; row < most; ++row) prompt.push_back(row);
    Request request = picture(std::move(prompt), guidance, 1);
    request.guide_prompt = request.prompt;
    std::vector<float> vectors(static_cast<std::size_t>(rows * config.hidden));
    for (std::size_t i = 0; i < vectors.size(); ++i)
      vectors[i] = std::sin(guidance + 0.7F * static_cast<float>(i));
    request.prompt_vectors = std::make_shared<const std::vector<float>>(std::move(vectors));
    return request;
  }
};

TEST_F(ContainmentOfPromptVectors, InABackendAndOfAllocations) {
  ask({captioned(7, 2.5F), captioned(7, 1), captioned(4, 1)});
  backend_may_fail_ = true;
  sweep({}, backend_->trigger, /*lasts=*/false);
  sweep({}, allocation_trigger(), /*lasts=*/false);
}

}  // namespace
}  // namespace talon::test::other_models_test
