#include "train/image/compare/compare_pictures.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <optional>
#include <set>

#include "core/error.h"
#include "train/image/compare/asked_pictures.h"
#include "train/image/compare/set_distances.h"
#include "train/image/compare/stored_features.h"
#include "train/image/stored_tokenizer.h"
#include "train/image/views.h"

namespace talon {
namespace {

using torch::Tensor;

constexpr int kNeighbours = 3;  // of precision and recall
constexpr double kCopyQuantile =
    0.01;  // of the distances of held-out pictures to those of training
constexpr std::int64_t kTogether = 64;  // pictures of a pass of the tokenizer

std::vector<PictureView> as_they_are(std::span<const std::size_t> pictures) {
  std::vector<PictureView> views;
  for (const std::size_t picture : pictures) views.push_back({.picture = picture});
  return views;
}

/// So many of them, evenly spread.
std::vector<std::size_t> some_of(const std::vector<std::size_t>& all, std::size_t count) {
  std::vector<std::size_t> some;
  for (std::size_t i = 0; i < std::min(count, all.size()); ++i)
    some.push_back(all[i * all.size() / std::min(count, all.size())]);
  return some;
}

/// The mean over the asked words of the share of asked words among those that come no later.
double average_precision(const Tensor& logits, const std::vector<int>& asked) {
  const Tensor order = logits.argsort(/*dim=*/0, /*descending=*/true);
  const auto* words = order.data_ptr<std::int64_t>();
  double sum = 0;
  int found = 0;
  for (std::int64_t rank = 0; rank < order.numel(); ++rank) {
    if (std::ranges::find(asked, static_cast<int>(words[rank])) == asked.end()) continue;
    sum += static_cast<double>(++found) / static_cast<double>(rank + 1);
  }
  return sum / static_cast<double>(asked.size());
}

/// Sets beside the pictures of a data set.
class Comparison {
 public:
  Comparison(const CompareOptions& options, const StopFlag* stop)
      : options_(options), stop_(stop), data_(options.data), network_(options.features) {
    if (network_.styles() != data_.styles() || network_.categories() != data_.categories() ||
        network_.words() != data_.words() || network_.side() != data_.side())
      fail("read {}: expected a network of the pictures of {}, found one of others",
           options.features, options.data);
    if (!options.tokenizer.empty()) tokenizer_.emplace(options.tokenizer, torch::kFloat);
    if (tokenizer_ && tokenizer_->side() != data_.side()) {
      fail("read {}: expected {} pixels a side, found {}", options.tokenizer, data_.side(),
           tokenizer_->side());
    }
  }

  std::vector<Json> run(const std::function<void(std::string_view)>& log) {
    const PicturesByPrompt by_prompt(data_);
    std::vector<AskedPictures> sets;
    for (const std::string& folder : options_.sets)
      sets.push_back(read_drawn(folder, data_, by_prompt));
    log("reads the pictures of the data");
    const std::vector<std::size_t> real = held_out_of(sets.front().prompts, by_prompt);
    const std::vector<std::size_t> others = read_reference(real);
    if (stopped()) return {};
    if (!real.empty()) add("real", render(data_, as_they_are(real)), real);
    if (tokenizer_ && !real.empty()) add("reconstructed", reconstructed(real), real);
    const auto some = some_of(others, sets.front().wanted.size());
    add("trained on", render(data_, as_they_are(some)), some);
    for (std::size_t i = 0; i < sets.size() && !stopped(); ++i) {
      log(fmt::format("compares {}", options_.sets[i]));
      add(options_.sets[i], sets[i].pictures, sets[i].wanted, /*drawn=*/true);
    }
    return stopped() ? std::vector<Json>() : std::move(lines_);
  }

 private:
  bool stopped() const { return stop_ && stop_->requested(); }

  void require_enough(const Tensor& features, std::string_view which) const {
    if (features.size(0) > kNeighbours) return;
    fail("read {}: expected more than {} pictures {}, found {}", options_.data, kNeighbours, which,
         features.size(0));
  }

  /// Held-out pictures that the prompts ask for, each once, in the order of the data.
  std::vector<std::size_t> held_out_of(const std::vector<std::string>& prompts,
                                       const PicturesByPrompt& by_prompt) const {
    std::set<std::size_t> pictures;
    for (const std::string& prompt : prompts) {
      for (const std::size_t picture : by_prompt.of(prompt)) {
        if (data_.facts(picture).held_out) pictures.insert(picture);
      }
    }
    return {pictures.begin(), pictures.end()};
  }

  /// The pictures that sets are held against: `real`, or all held-out ones if those are too few;
  /// and those to train on of the same categories, which are given back.
  std::vector<std::size_t> read_reference(const std::vector<std::size_t>& real) {
    std::vector<std::size_t> held_out = data_.split(true), others = data_.split(false);
    const bool enough = std::ssize(real) > kNeighbours;
    if (enough) {
      std::set<int> categories;
      for (const std::size_t picture : real) categories.insert(data_.facts(picture).category);
      const auto of_another = [&](std::size_t picture) {
        return !categories.contains(data_.facts(picture).category);
      };
      std::erase_if(held_out, of_another);
      std::erase_if(others, of_another);
    }
    reference_name_ = enough ? "held out, of the prompts" : "held out";
    const Tensor alike = features_of(held_out);
    reference_ = enough ? features_of(real) : alike;
    trained_ = features_of(others);
    if (stopped()) return {};
    require_enough(reference_, "that are held out");
    require_enough(trained_,
                   enough ? "to train on of the categories of the prompts" : "to train on");
    copy_distance_ = nearest_distances(alike, trained_).quantile(kCopyQuantile).item<double>();
    return others;
  }

  Tensor features_of(const std::vector<std::size_t>& pictures) const {
    std::vector<Tensor> features;
    const auto views = as_they_are(pictures);
    constexpr std::size_t kSome = 256;
    for (std::size_t i = 0; i < views.size() && !stopped(); i += kSome) {
      const auto some = std::span(views).subspan(i, std::min(kSome, views.size() - i));
      features.push_back(network_.of(render(data_, some)).features.to(torch::kDouble));
    }
    return features.empty() ? torch::empty({0, 0}, torch::kDouble) : at::cat(features);
  }

  Tensor reconstructed(const std::vector<std::size_t>& pictures) const {
    std::vector<Tensor> made;
    for (const Tensor& some : render(data_, as_they_are(pictures)).split(kTogether))
      made.push_back(tokenizer_->pictures_of(tokenizer_->codes_of(some)));
    return at::cat(made);
  }

  void add(const std::string& name, const Tensor& pictures, const std::vector<std::size_t>& wanted,
           bool drawn = false) {
    const FeaturesNetwork::Answers answers = network_.of(pictures);
    const Tensor features = answers.features.to(torch::kDouble);
    Json line = {{"set", name},
                 {"count", wanted.size()},
                 {"reference", reference_name_},
                 {"reference_count", reference_.size(0)}};
    add_recognised(answers, wanted, line);
    if (features.size(0) > kNeighbours) {
      if (name != "real") add_distances("", features, reference_, line);
      line["precision"] = covered_share(features, reference_, kNeighbours);
      line["recall"] = covered_share(reference_, features, kNeighbours);
      if (drawn && first_.defined()) add_distances("_first", features, first_, line);
      if (drawn && !first_.defined()) first_ = features;
    }
    const Tensor nearest = nearest_distances(features, trained_);
    line["copies"] = nearest.lt(copy_distance_).to(torch::kDouble).mean().item<double>();
    lines_.push_back(std::move(line));
  }

  void add_recognised(const FeaturesNetwork::Answers& answers,
                      const std::vector<std::size_t>& wanted, Json& line) const {
    const Tensor style = answers.style.argmax(1), category = answers.category.argmax(1);
    double styles = 0, categories = 0, both = 0, precision = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const PictureFacts& facts = data_.facts(wanted[i]);
      const auto row = static_cast<std::int64_t>(i);
      const bool right_style = style[row].item<int>() == facts.style;
      const bool right_category = category[row].item<int>() == facts.category;
      styles += right_style;
      categories += right_category;
      both += right_style && right_category;
      if (!facts.words.empty()) precision += average_precision(answers.words[row], facts.words);
    }
    const auto count = static_cast<double>(wanted.size());
    line["style"] = styles / count;
    line["category"] = categories / count;
    line["both"] = both / count;
    line["words"] = precision / count;
  }

  static void add_distances(const std::string& suffix, const Tensor& a, const Tensor& b,
                            Json& line) {
    line["fd" + suffix] = frechet_distance(a, b);
    line["fd" + suffix + "_error"] = standard_error(a, b, frechet_distance);
    line["kid" + suffix] = kernel_distance(a, b);
    line["kid" + suffix + "_error"] = standard_error(a, b, kernel_distance);
  }

  const CompareOptions& options_;
  const StopFlag* stop_;
  PictureSet data_;
  StoredFeatures network_;
  std::optional<StoredTokenizer> tokenizer_;
  std::string reference_name_;
  Tensor reference_, trained_;  // features
  Tensor first_;                // features of the first set
  double copy_distance_ = 0;
  std::vector<Json> lines_;
};

}  // namespace

std::vector<Json> compare_pictures(const CompareOptions& options, const TrainingHooks& hooks) {
  expects(!options.sets.empty(), "sets to compare");
  at::set_num_threads(options.threads);
  return Comparison(options, hooks.stop).run(hooks.log);
}

}  // namespace talon
