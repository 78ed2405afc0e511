#include "bench/image/surprise.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "model/target.h"

namespace talon {

void Surprise::add(std::span<const Sampler::Candidate> law, TokenId code) {
  double entropy = 0, squares = 0, own = 0;
  for (const auto& [token, p] : law) {
    const double bits = p > 0 ? -std::log(p) : 0;
    entropy += p * bits;
    squares += p * bits * bits;
    if (token == code) own = p;
  }
  ++codes;
  if (own > 0) {
    sum += -std::log(own) - entropy;
  } else {
    ++impossible;
  }
  variance += std::max(0.0, squares - entropy * entropy);
}

void SurpriseOfPictures::add(std::uint64_t seed, const Surprise& picture) {
  sum_ += picture.sum;
  codes_ += picture.codes;
  impossible_ += picture.impossible;
  errors_[seed] += std::sqrt(picture.variance);
}

double SurpriseOfPictures::z() const {
  double variance = 0;
  for (const auto& [seed, error] : errors_) variance += error * error;
  return variance > 0 ? sum_ / std::sqrt(variance) : 0;
}

Surprise surprise_of(const Model& model, const Request& request, std::span<const TokenId> answer) {
  expects(model.config.image.has_value(), "a model that draws pictures");
  if (answer.empty()) return {};
  std::vector<TokenId> text = request.prompt;
  text.insert(text.end(), answer.begin(), answer.end());
  const auto rows = static_cast<int>(text.size()) - 1;
  const int streams = request.streams();
  KvCache cache(*model.backend,
                kv_shape(model.config, streams * (rows / kPageRows + 1), KvType::f32));
  Target target(model, cache, streams * rows);
  KvSequence sequence = cache.start({}, false);
  if (streams > 1) {
    const auto lead = static_cast<int>(request.prompt.size() - request.guide_prompt.size());
    sequence.pair(cache.start({}, false), request.guide_prompt, lead);
  }
  const bool has_room = sequence.reserve(rows);
  expects(has_room, "room in a cache of its own");
  const auto prompt = static_cast<int>(request.prompt.size());
  SequenceRows part{.sequence = &sequence,
                    .tokens = std::span(text).first(static_cast<std::size_t>(rows)),
                    .parents = {}};
  if (model.config.rope.grid_columns > 0) part.picture_prompt = prompt;
  if (request.prompt_vectors) part.vectors = *request.prompt_vectors;
  part.guidance = request.guidance;
  part.guided_until = request.guided_until();
  const ForwardResult result = target.forward({&part, 1});

  Sampler sampler(request.sampler, model.config.vocabulary);
  const auto constraint =
      request.constraint ? request.constraint->start(request.end_tokens) : nullptr;
  if (constraint) sampler.constrain(*constraint);
  std::vector<float> logits(static_cast<std::size_t>(model.config.vocabulary));
  Surprise surprise;
  for (std::size_t i = 0; i < answer.size(); ++i) {
    if (model.config.image->forced(static_cast<int>(i)) >= 0) continue;
    const int row = prompt - 1 + static_cast<int>(i);
    model.backend->download(result.logits.row_range(row, 1), logits);
    const SampleHistory history{
        std::span(text).first(static_cast<std::size_t>(row) + 1), {}, prompt};
    surprise.add(sampler.distribution_by_token(logits, history), answer[i]);
  }
  return surprise;
}

}  // namespace talon
