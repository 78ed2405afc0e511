#include "train/image/train_features.h"

#include <algorithm>
#include <cmath>

#include "io/atomic_file.h"
#include "train/image/network/picture_functions.h"
#include "train/image/network/precision.h"
#include "train/image/network/vq_shape.h"
#include "train/image/views.h"

namespace talon {
namespace {

using torch::Tensor;

constexpr int kStages = 4;           // each halves the side and doubles the channels
constexpr double kWordsWeight = 20;  // of the mean over all words, few of which are true

/// What the network says of pictures.
struct Answers {
  Tensor features;                // [batch, features]
  Tensor style, category, words;  // logits
};

struct Wanted {
  Tensor style, category, words;
};

std::string stage(int index, const char* name) {
  return "stages." + std::to_string(index) + "." + name;
}

class FeaturesTask : public TrainingTask {
 public:
  FeaturesTask(const FeaturesOptions& options, const PictureSet& pictures)
      : options_(options),
        pictures_(pictures),
        order_(pictures.split(false), options.schedule.seed),
        parameters_(shapes(), torch::kFloat, low_type(options.schedule.precision), torch::kCPU) {
    set_initial_values(parameters_, options.schedule.seed);
  }

  ParameterStore& parameters() override { return parameters_; }
  Measures learn(std::int64_t place, int batch, bool measured) override;
  Measures evaluate() override;
  void write(const std::filesystem::path& folder, const Json& facts) override;

 private:
  std::vector<ParameterStore::Shape> shapes() const;
  Answers forward(const Tensor& pictures) const;
  Tensor conv(const std::string& name, const Tensor& x, std::int64_t stride) const {
    return convolve(x, parameters_[name + ".weight"], parameters_[name + ".bias"], stride, 1);
  }
  Tensor norm(const std::string& name, const Tensor& x) const {
    return group_norm(
        x, {.weight = parameters_[name + ".weight"], .bias = parameters_[name + ".bias"]});
  }
  Tensor matrix(const std::string& name, const Tensor& x) const {
    return at::addmm(parameters_[name + ".bias"].value, x, parameters_[name + ".weight"].value.t());
  }
  Wanted wanted(const std::vector<PictureView>& views) const;

  FeaturesOptions options_;
  const PictureSet& pictures_;
  PictureOrder order_;
  ParameterStore parameters_;
};

std::vector<ParameterStore::Shape> FeaturesTask::shapes() const {
  std::vector<ParameterStore::Shape> list;
  const auto conv = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    list.push_back({name + ".weight", {out, in, 3, 3}});
    list.push_back({name + ".bias", {out}});
  };
  const auto norm = [&](const std::string& name, std::int64_t width) {
    list.push_back({name + ".weight", {width}});
    list.push_back({name + ".bias", {width}});
  };
  const auto matrix = [&](const std::string& name, std::int64_t in, std::size_t out) {
    list.push_back({name + ".weight", {static_cast<std::int64_t>(out), in}});
    list.push_back({name + ".bias", {static_cast<std::int64_t>(out)}});
  };
  std::int64_t width = options_.width;
  conv("conv_in", 3, width);
  for (int i = 0; i < kStages; ++i) {
    const std::int64_t next = i == 0 ? width : std::min<std::int64_t>(2 * width, 256);
    norm(stage(i, "norm1"), width);
    conv(stage(i, "conv1"), width, next);
    norm(stage(i, "norm2"), next);
    conv(stage(i, "conv2"), next, next);
    width = next;
  }
  norm("norm_out", width);
  matrix("features", width, static_cast<std::size_t>(options_.features));
  matrix("style", options_.features, pictures_.styles().size());
  matrix("category", options_.features, pictures_.categories().size());
  matrix("words", options_.features, pictures_.words().size());
  return list;
}

Answers FeaturesTask::forward(const Tensor& pictures) const {
  Tensor x = conv("conv_in", pictures.to(parameters_["conv_in.weight"].low.scalar_type()), 1);
  for (int i = 0; i < kStages; ++i) {
    x = conv(stage(i, "conv1"), norm(stage(i, "norm1"), x), /*stride=*/2);
    x = x + conv(stage(i, "conv2"), norm(stage(i, "norm2"), x), /*stride=*/1);
  }
  const Tensor pooled = norm("norm_out", x).to(torch::kFloat).mean({2, 3});
  Answers answers;
  answers.features = at::relu(matrix("features", pooled));
  answers.style = matrix("style", answers.features);
  answers.category = matrix("category", answers.features);
  answers.words = matrix("words", answers.features);
  return answers;
}

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
  const Answers answers = forward(render(pictures_, views));
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
    const Answers answers = forward(render(pictures_, views));
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
