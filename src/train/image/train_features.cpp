#include "train/image/train_features.h"

#include <algorithm>
#include <cmath>

#include "io/atomic_file.h"
#include "train/image/network/features_network.h"
#include "train/image/network/precision.h"
#include "train/image/network/vq_shape.h"
#include "train/image/views.h"

namespace talon {
namespace {

using torch::Tensor;

constexpr double kWordsWeight = 20;  // of the mean over all words, few of which are true

struct Wanted {
  Tensor style, category, words;
};

FeaturesShape shape_of(const FeaturesOptions& options, const PictureSet& pictures) {
  return {.width = options.width,
          .features = options.features,
          .styles = std::ssize(pictures.styles()),
          .categories = std::ssize(pictures.categories()),
          .words = std::ssize(pictures.words())};
}

class FeaturesTask : public TrainingTask {
 public:
  FeaturesTask(const FeaturesOptions& options, const PictureSet& pictures)
      : options_(options),
        pictures_(pictures),
        order_(pictures.split(false), options.schedule.seed),
        shape_(shape_of(options, pictures)),
        parameters_(parameter_shapes(shape_), torch::kFloat, low_type(options.schedule.precision),
                    torch::kCPU),
        network_(parameters_) {
    set_initial_values(parameters_, options.schedule.seed);
  }

  ParameterStore& parameters() override { return parameters_; }
  Measures learn(std::int64_t place, int batch, bool measured) override;
  Measures evaluate() override;
  void write(const std::filesystem::path& folder, const Json& facts) override;

 private:
  Wanted wanted(const std::vector<PictureView>& views) const;

  FeaturesOptions options_;
  const PictureSet& pictures_;
  PictureOrder order_;
  FeaturesShape shape_;
  ParameterStore parameters_;
  FeaturesNetwork network_;
};

Wanted FeaturesTask::wanted(const std::vector<PictureView>& views) const {
  const auto count = std::ssize(views);
  Wanted wanted{
      torch::empty({count}, torch::kLong), torch::empty({count}, torch::kLong),
      torch::zeros({count, static_cast<std::int64_t>(pictures_.words().size())}, torch::kFloat)};
  for (std::int64_t i = 0; i < count; ++i) {
    const PictureFacts& facts = pictures_.facts(views[static_cast<std::size_t>(i)].picture);
    wanted.style[i] = facts.style;
    wanted.category[i] = facts.category;
    for (const int word : facts.words) wanted.words[i][word] = 1;
  }
  return wanted;
}

Measures FeaturesTask::learn(std::int64_t place, int batch, bool measured) {
  std::vector<PictureView> views;
  for (std::int64_t i = place; i < place + batch; ++i) {
    const std::uint64_t random = random_at(options_.schedule.seed, static_cast<std::uint64_t>(i));
    views.push_back(draw_view(pictures_, order_.at(i), options_.shift, random));
  }
  const Wanted wanted_now = wanted(views);
  const FeaturesNetwork::Answers answers = network_.forward(render(pictures_, views));
  const Tensor style = at::cross_entropy_loss(answers.style, wanted_now.style);
  const Tensor category = at::cross_entropy_loss(answers.category, wanted_now.category);
  const Tensor words = at::binary_cross_entropy_with_logits(answers.words, wanted_now.words);
  const Tensor loss = style + category + kWordsWeight * words;
  loss.backward();
  if (!measured) return {};
  return {{"style", style.item<double>()},
          {"category", category.item<double>()},
          {"words", words.item<double>()}};
}

Measures FeaturesTask::evaluate() {
  const torch::NoGradGuard no_gradient;
  const auto held_out = pictures_.split(true);
  double style = 0, category = 0, both = 0, word = 0, with_words = 0;
  const auto batch = static_cast<std::size_t>(options_.schedule.batch);
  for (std::size_t begin = 0; begin < held_out.size(); begin += batch) {
    std::vector<PictureView> views;
    for (std::size_t i = begin; i < std::min(held_out.size(), begin + batch); ++i)
      views.push_back({.picture = held_out[i]});
    const Wanted expected = wanted(views);
    const FeaturesNetwork::Answers answers = network_.forward(render(pictures_, views));
    const Tensor right_style = answers.style.argmax(1).eq(expected.style);
    const Tensor right_category = answers.category.argmax(1).eq(expected.category);
    style += right_style.sum().item<double>();
    category += right_category.sum().item<double>();
    both += right_style.logical_and(right_category).sum().item<double>();
    const Tensor first = answers.words.argmax(1, /*keepdim=*/true);
    word += expected.words.gather(1, first).sum().item<double>();
    with_words += expected.words.sum(1).gt(0).sum().item<double>();
  }
  const double count = std::max<double>(1, static_cast<double>(held_out.size()));
  return {{"style", style / count},
          {"category", category / count},
          {"both", both / count},
          {"first_word", word / std::max(1.0, with_words)}};
}

void FeaturesTask::write(const std::filesystem::path& folder, const Json& facts) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const std::string& name : parameters_.names())
    tensors.emplace_back(name, parameters_[name].value);
  write_tensors(folder / "features.safetensors", tensors);
  const Json json = {{"side", pictures_.side()},
                     {"width", shape_.width},
                     {"features", shape_.features},
                     {"styles", pictures_.styles()},
                     {"categories", pictures_.categories()},
                     {"words", pictures_.words()},
                     {"training", facts}};
  const std::string text = json.dump(1) + "\n";
  write_file(folder / "features.json", std::as_bytes(std::span(text)));
}

Json own_settings(const FeaturesOptions& options, const PictureSet& pictures) {
  return {{"kind", "features"},
          {"data_sha256", pictures.sha256()},
          {"contents_sha256", pictures.contents_sha256()},
          {"width", options.width},
          {"features", options.features},
          {"shift", options.shift}};
}

}  // namespace

TrainingResult train_features(const FeaturesOptions& options, const TrainingHooks& hooks) {
  const PictureSet pictures(options.data);
  FeaturesOptions now = options;
  now.schedule.count = std::ssize(pictures.split(false));
  FeaturesTask task(now, pictures);
  return train(task, now.schedule, own_settings(now, pictures), hooks);
}

}  // namespace talon
