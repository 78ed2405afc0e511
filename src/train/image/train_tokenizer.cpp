#include "train/image/train_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "io/atomic_file.h"
#include "train/image/network/codebook.h"
#include "train/image/network/precision.h"
#include "train/image/network/vq_model.h"
#include "train/image/views.h"

namespace talon {
namespace {

using torch::Tensor;

constexpr int kMostRestarts = 8;        // codes an iteration
constexpr std::int64_t kHeldOut = 512;  // held-out pictures at most

VqShape shape_of(const TokenizerOptions& options) {
  VqShape shape;
  shape.channels = options.channels;
  shape.multipliers = options.multipliers;
  shape.blocks = options.blocks;
  shape.latent = options.latent;
  shape.codes = options.codes;
  shape.code_width = options.code_width;
  for (int level = 0; level < shape.levels(); ++level) {
    if (shape.width(level) % 32 == 0) continue;
    throw UsageError(fmt::format(
        "--channels, --multipliers: expected multiples of 32 channels, got {} in level {}",
        shape.width(level), level));
  }
  return shape;
}

/// Mean over all of |a - b|.
Tensor l1(const Tensor& a, const Tensor& b) { return (a - b).abs().mean(); }

Tensor down_differences(const Tensor& x) {
  return x.narrow(2, 1, x.size(2) - 1) - x.narrow(2, 0, x.size(2) - 1);
}
Tensor right_differences(const Tensor& x) {
  return x.narrow(3, 1, x.size(3) - 1) - x.narrow(3, 0, x.size(3) - 1);
}

class TokenizerTask : public TrainingTask {
 public:
  TokenizerTask(const TokenizerOptions& options, const PictureSet& pictures)
      : options_(options),
        shape_(shape_of(options)),
        pictures_(pictures),
        order_(pictures.split(false), options.schedule.seed),
        parameters_(parameter_shapes(shape_), torch::kFloat, low_type(options.schedule.precision),
                    torch::kCPU),
        model_(shape_, parameters_),
        codebook_(shape_.codes, shape_.code_width) {
    if (pictures.side() % shape_.cell() != 0) {
      throw UsageError(
          fmt::format("--multipliers: {} levels make cells of {} pixels, which do not "
                      "fill pictures of {}",
                      shape_.levels(), shape_.cell(), pictures.side()));
    }
    set_initial_values(parameters_, options.schedule.seed);
  }

  ParameterStore& parameters() override { return parameters_; }
  Measures learn(std::int64_t place, int batch, bool measured) override;
  std::vector<std::pair<std::string, Tensor>> extra_state() override {
    return {{"codebook", codebook_.vectors}, {"uses", codebook_.uses}, {"sums", codebook_.sums}};
  }
  void resumed() override { codebook_.started = codebook_.vectors.any().item<bool>(); }
  Measures evaluate() override;
  void write(const std::filesystem::path& folder, const Json& facts) override;

 private:
  Tensor views_at(std::int64_t place, int batch);
  /// float32 [batch, 3, side, side] of the vectors.
  Tensor decoded(const Tensor& vectors, std::int64_t batch) const {
    return model_.decode(vectors, batch).to(torch::kFloat);
  }

  TokenizerOptions options_;
  VqShape shape_;
  const PictureSet& pictures_;
  PictureOrder order_;
  ParameterStore parameters_;
  VqModel model_;
  Codebook codebook_;
};

Tensor TokenizerTask::views_at(std::int64_t place, int batch) {
  std::vector<PictureView> views;
  for (std::int64_t i = place; i < place + batch; ++i) {
    const std::uint64_t random = random_at(options_.schedule.seed, static_cast<std::uint64_t>(i));
    views.push_back(draw_view(pictures_, order_.at(i), options_.shift, random));
  }
  return render(pictures_, views);
}

Measures TokenizerTask::learn(std::int64_t place, int batch, bool measured) {
  const Tensor pictures = views_at(place, batch);
  const Tensor vectors = model_.encode(pictures);
  const std::uint64_t seed = options_.schedule.seed + static_cast<std::uint64_t>(place);
  const bool quantised =
      place >= static_cast<std::int64_t>(options_.free_steps) * options_.schedule.batch;
  Tensor read = vectors, commitment = torch::zeros({});
  int restarts = 0;
  if (quantised) {
    const Tensor rows = vectors.detach();
    if (!codebook_.started) codebook_.start(rows, seed);
    const Tensor codes = codebook_.nearest(rows);
    const Tensor chosen = codebook_.look_up(codes);
    read = vectors + (chosen - rows);  // the gradient passes the codebook by
    commitment = (vectors - chosen).square().sum(1).mean();
    restarts = codebook_.follow(rows, codes, kMostRestarts, seed);
  }
  const Tensor drawn = decoded(read, batch);
  const Tensor plain = l1(drawn, pictures);
  const Tensor edges = l1(down_differences(drawn), down_differences(pictures)) +
                       l1(right_differences(drawn), right_differences(pictures));
  const Tensor means =
      l1(at::avg_pool2d(drawn, shape_.cell()), at::avg_pool2d(pictures, shape_.cell()));
  const Tensor loss =
      plain + options_.edges * edges + options_.means * means + options_.commitment * commitment;
  loss.backward();
  if (!measured) return {};
  return {{"l1", plain.item<double>()},
          {"edges", edges.item<double>()},
          {"means", means.item<double>()},
          {"commitment", commitment.item<double>()},
          {"restarts", restarts}};
}

Measures TokenizerTask::evaluate() {
  const torch::NoGradGuard no_gradient;
  const auto held_out = pictures_.split(true);
  const auto count = std::min<std::int64_t>(kHeldOut, std::ssize(held_out));
  if (count == 0) return {};
  Tensor uses = torch::zeros({shape_.codes}, torch::kLong);
  double error = 0, squares = 0, distance = 0;
  for (std::int64_t begin = 0; begin < count; begin += options_.schedule.batch) {
    std::vector<PictureView> views;
    for (std::int64_t i = begin; i < std::min(count, begin + options_.schedule.batch); ++i)
      views.push_back({.picture = held_out[static_cast<std::size_t>(i)]});
    const Tensor pictures = render(pictures_, views);
    const Tensor vectors = model_.encode(pictures);
    Tensor read = vectors;
    if (codebook_.started) {
      const Tensor codes = codebook_.nearest(vectors);
      read = codebook_.look_up(codes);
      uses += at::bincount(codes, {}, shape_.codes);
    }
    distance += (vectors - read).square().sum(1).mean().item<double>() * double(std::ssize(views));
    const Tensor drawn = decoded(read, std::ssize(views)).clamp(-1, 1);
    error += l1(drawn, pictures).item<double>() * static_cast<double>(std::ssize(views));
    squares += (drawn - pictures).square().mean({1, 2, 3}).sum().item<double>();
  }
  const double pictures = static_cast<double>(count);
  Measures measures = {{"psnr", 10 * std::log10(4 / (squares / pictures))},
                       {"l1", error / pictures},
                       {"distance", distance / pictures}};
  if (codebook_.started) {
    measures.emplace_back("codes", (uses > 0).sum().item<double>());
    measures.emplace_back("perplexity", perplexity(uses));
  }
  return measures;
}

void TokenizerTask::write(const std::filesystem::path& folder, const Json& facts) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const std::string& name : parameters_.names())
    tensors.emplace_back(name, parameters_[name].value);
  tensors.emplace_back("quantize.embedding.weight", codebook_.vectors);
  write_tensors(folder / "vq.safetensors", tensors);
  const std::string text =
      Json({{"shape", to_json(shape_)}, {"side", pictures_.side()}, {"training", facts}}).dump(1);
  write_file(folder / "tokenizer.json", std::as_bytes(std::span(text)));
}

Json own_settings(const TokenizerOptions& options, const PictureSet& pictures) {
  return {{"kind", "tokenizer"},
          {"data_sha256", pictures.sha256()},
          {"contents_sha256", pictures.contents_sha256()},
          {"shape", to_json(shape_of(options))},
          {"shift", options.shift},
          {"free_steps", options.free_steps},
          {"loss", {options.commitment, options.edges, options.means}}};
}

/// A codebook is begun with the first vectors that are made codes.
void check_has_codes(const TokenizerOptions& options) {
  const double pictures = options.schedule.epochs * static_cast<double>(options.schedule.count);
  if (pictures > static_cast<double>(options.free_steps) * options.schedule.batch) return;
  throw UsageError(fmt::format(
      "--free-steps: expected fewer than the {:.0f} iterations of --epochs {}, got {}",
      std::ceil(pictures / options.schedule.batch), options.schedule.epochs, options.free_steps));
}

}  // namespace

TrainingResult train_tokenizer(const TokenizerOptions& options, const TrainingHooks& hooks) {
  const PictureSet pictures(options.data);
  TokenizerOptions now = options;
  now.schedule.count = std::ssize(pictures.split(false));
  check_has_codes(now);
  TokenizerTask task(now, pictures);
  return train(task, now.schedule, own_settings(now, pictures), hooks);
}

}  // namespace talon
