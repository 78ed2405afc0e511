#include "train/image/train_image_model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "io/atomic_file.h"
#include "io/mapped_file.h"
#include "train/image/network/precision.h"
#include "train/image/stored_tokenizer.h"
#include "train/image/views.h"

namespace talon {
namespace {

using torch::Tensor;

constexpr std::int64_t kEvaluated = 512;      // pictures at most of each part
constexpr std::uint64_t kDropout = 1u << 30;  // seeds of dropout, apart from others

ImageModelShape shape_of(const ImageModelOptions& options, const PictureSet& pictures,
                         const PictureCodes& codes) {
  if (options.hidden % options.head_dim != 0 || options.head_dim % 4 != 0) {
    throw UsageError(
        fmt::format("--hidden, --head-dim: expected whole heads of a multiple of 4, got {} and {}",
                    options.hidden, options.head_dim));
  }
  ImageModelShape shape;
  shape.hidden = options.hidden;
  shape.layers = options.layers;
  shape.head_dim = options.head_dim;
  shape.intermediate =
      options.intermediate > 0 ? options.intermediate : usual_intermediate(options.hidden);
  shape.codes = codes.code_count;
  shape.grid = codes.grid;
  shape.prefix = options.prefix;
  shape.prompt_rows = static_cast<int>(pictures.words().size() + pictures.styles().size()) + 1;
  return shape;
}

std::vector<std::size_t> chosen(const PictureSet& pictures, const ImageModelOptions& options,
                                bool held_out) {
  std::vector<std::size_t> chosen = pictures.split(held_out);
  if (options.categories.empty()) return chosen;
  std::erase_if(chosen, [&](std::size_t picture) {
    const auto& category =
        pictures.categories()[static_cast<std::size_t>(pictures.facts(picture).category)];
    return std::ranges::find(options.categories, category) == options.categories.end();
  });
  return chosen;
}

void require_categories(const ImageModelOptions& options, const PictureSet& pictures) {
  for (const std::string& category : options.categories) {
    if (std::ranges::find(pictures.categories(), category) != pictures.categories().end()) continue;
    throw UsageError(fmt::format("--categories: expected some of \"{}\", got \"{}\"",
                                 fmt::join(pictures.categories(), "\", \""), category));
  }
}

class ImageModelTask : public TrainingTask {
 public:
  ImageModelTask(const ImageModelOptions& options, const PictureSet& pictures,
                 const PictureCodes& codes)
      : options_(options),
        pictures_(pictures),
        codes_(codes),
        shape_(shape_of(options, pictures, codes)),
        trained_(chosen(pictures, options, /*held_out=*/false)),
        held_out_(chosen(pictures, options, /*held_out=*/true)),
        order_(trained_, options.schedule.seed),
        parameters_(parameter_shapes(shape_), torch::kFloat, low_type(options.schedule.precision),
                    torch::kCPU),
        model_(shape_, parameters_) {
    set_initial_values(parameters_, shape_, options.schedule.seed);
  }

  const ImageModelShape& shape() const { return shape_; }
  ParameterStore& parameters() override { return parameters_; }
  Measures learn(std::int64_t place, int batch, bool measured) override;
  Measures evaluate() override;
  void write(const std::filesystem::path& folder, const Json& facts) override;

 private:
  void put(ImageBatch& batch, std::int64_t row, std::size_t picture, std::int64_t view,
           bool without_words) const;
  ImageBatch empty_batch(std::int64_t count) const {
    return {torch::empty({count, shape_.prefix}, torch::kLong),
            torch::empty({count, shape_.cells()}, torch::kLong)};
  }
  ImageBatch drawn_batch(std::int64_t place, int batch);
  void add_loss(const char* name, const std::vector<std::size_t>& pictures, bool without_words,
                Measures& measures) const;
  std::vector<std::int64_t> learned_rows() const;
  Json config(std::size_t prompt_rows, const Json& facts) const;

  ImageModelOptions options_;
  const PictureSet& pictures_;
  const PictureCodes& codes_;
  ImageModelShape shape_;  // with the words of all pictures
  std::vector<std::size_t> trained_, held_out_;
  PictureOrder order_;
  ParameterStore parameters_;
  ImageModel model_;
};

void ImageModelTask::put(ImageBatch& batch, std::int64_t row, std::size_t picture,
                         std::int64_t view, bool without_words) const {
  const auto prompt = prompt_of(pictures_.facts(picture), pictures_, shape_.prefix);
  batch.prompts[row].copy_(torch::tensor(prompt, torch::kLong));
  if (without_words) batch.prompts[row].fill_(shape_.null_word());
  batch.codes[row].copy_(codes_.codes[view][static_cast<std::int64_t>(picture)]);
}

ImageBatch ImageModelTask::drawn_batch(std::int64_t place, int batch) {
  ImageBatch drawn = empty_batch(batch);
  const auto views = static_cast<std::uint64_t>(codes_.codes.size(0));
  const auto without = static_cast<std::uint64_t>(options_.unconditional * (1 << 20));
  for (std::int64_t i = 0; i < batch; ++i) {
    const std::uint64_t random =
        random_at(options_.schedule.seed, static_cast<std::uint64_t>(place + i));
    put(drawn, i, order_.at(place + i), static_cast<std::int64_t>((random >> 32) % views),
        (random & 0xfffff) < without);
  }
  return drawn;
}

Measures ImageModelTask::learn(std::int64_t place, int batch, bool measured) {
  const ImageBatch drawn = drawn_batch(place, batch);
  const std::uint64_t seed = options_.schedule.seed + kDropout + static_cast<std::uint64_t>(place);
  const Tensor logits = model_.forward(drawn, {.share = options_.dropout, .seed = seed});
  const Tensor loss = at::cross_entropy_loss(logits, drawn.codes.flatten());
  loss.backward();
  if (!measured) return {};
  return {{"loss", loss.item<double>()}};
}

/// Nothing of no pictures.
void ImageModelTask::add_loss(const char* name, const std::vector<std::size_t>& pictures,
                              bool without_words, Measures& measures) const {
  if (pictures.empty()) return;
  const torch::NoGradGuard no_gradient;
  const auto count = std::min<std::int64_t>(kEvaluated, std::ssize(pictures));
  double sum = 0;
  for (std::int64_t begin = 0; begin < count; begin += options_.schedule.batch) {
    const std::int64_t rows = std::min<std::int64_t>(options_.schedule.batch, count - begin);
    ImageBatch batch = empty_batch(rows);
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t at = (begin + i) * std::ssize(pictures) / count;
      put(batch, i, pictures[static_cast<std::size_t>(at)], /*view=*/0, without_words);
    }
    const Tensor loss = at::cross_entropy_loss(model_.forward(batch), batch.codes.flatten());
    sum += loss.item<double>() * static_cast<double>(rows);
  }
  measures.emplace_back(name, sum / static_cast<double>(count));
}

Measures ImageModelTask::evaluate() {
  Measures measures;
  add_loss("nats", held_out_, /*without_words=*/false, measures);
  add_loss("nats_without_words", held_out_, /*without_words=*/true, measures);
  add_loss("nats_train", trained_, /*without_words=*/false, measures);
  return measures;
}

/// The rows of the table of prompts that are written: words of its pictures, styles, no word.
std::vector<std::int64_t> ImageModelTask::learned_rows() const {
  std::set<std::int64_t> rows;
  for (const std::size_t picture : trained_) {
    const std::vector<int>& words = pictures_.facts(picture).words;
    rows.insert(words.begin(), words.end());
  }
  for (auto row = std::ssize(pictures_.words()); row < shape_.prompt_rows; ++row) rows.insert(row);
  return {rows.begin(), rows.end()};
}

Json ImageModelTask::config(std::size_t prompt_rows, const Json& facts) const {
  return {{"architectures", {"llamagen"}},
          {"model_type", "llamagen"},
          {"hidden_size", shape_.hidden},
          {"num_hidden_layers", shape_.layers},
          {"num_attention_heads", shape_.heads()},
          {"intermediate_size", shape_.intermediate},
          {"vocab_size", shape_.codes},
          {"rms_norm_eps", shape_.norm_epsilon},
          {"rope_theta", shape_.rope_base},
          {"grid", {shape_.grid, shape_.grid}},
          {"prefix_rows", shape_.prefix},
          {"prompt_rows", prompt_rows},
          {"prefix_rotation", "identity"},
          {"tokenizer", codes_.facts},
          {"training", facts}};
}

void ImageModelTask::write(const std::filesystem::path& folder, const Json& facts) {
  const auto model = folder / "model";
  std::filesystem::create_directories(model);
  const std::vector<std::int64_t> rows = learned_rows();
  std::vector<std::string> words;
  for (const std::int64_t row : rows) {
    if (row < std::ssize(pictures_.words()))
      words.push_back(pictures_.words()[static_cast<std::size_t>(row)]);
  }
  auto tensors = llamagen_tensors(parameters_, shape_);
  for (auto& [name, tensor] : tensors) {
    if (name == kPromptTable) tensor = tensor.index_select(0, torch::tensor(rows));
    if (tensor.dim() == 2) tensor = tensor.to(torch::kBFloat16);  // matrices, as models come
  }
  write_tensors(model / "model.safetensors", tensors);
  const auto write_json = [&](const char* name, const Json& json) {
    const std::string text = json.dump(1) + "\n";
    write_file(model / name, std::as_bytes(std::span(text)));
  };
  const MappedFile tokenizer(std::filesystem::path(options_.codes) / kTokenizerFile);
  write_file(model / kTokenizerFile, tokenizer.bytes());
  write_json("words.json", {{"words", words}, {"styles", pictures_.styles()}});
  write_json("config.json", config(rows.size(), facts));
}

Json own_settings(const ImageModelOptions& options, const ImageModelTask& task,
                  const PictureSet& pictures, const PictureCodes& codes) {
  const ImageModelShape& shape = task.shape();
  Json made = codes.facts;  // as checkpoints of before have them
  made.erase("contents_sha256");
  made.erase("precision");
  Json settings = {{"kind", "model"},
                   {"data_sha256", pictures.sha256()},
                   {"contents_sha256", pictures.contents_sha256()},
                   {"codes", made},
                   {"shape",
                    {shape.hidden, shape.layers, shape.head_dim, shape.intermediate, shape.prefix,
                     shape.prompt_rows}},
                   {"categories", options.categories},
                   {"dropout", options.dropout},
                   {"unconditional", options.unconditional}};
  if (codes.facts.contains("precision")) settings["codes_precision"] = codes.facts["precision"];
  return settings;
}

}  // namespace

std::vector<std::int64_t> prompt_of(const PictureFacts& facts, const PictureSet& pictures,
                                    int prefix) {
  const auto words = static_cast<std::int64_t>(pictures.words().size());
  const auto styles = static_cast<std::int64_t>(pictures.styles().size());
  std::vector<std::int64_t> prompt(static_cast<std::size_t>(prefix), words + styles);
  const std::size_t most = std::min(facts.words.size(), prompt.size() - 1);
  for (std::size_t i = 0; i < most; ++i) prompt[i] = facts.words[i];
  prompt.back() = words + facts.style;
  return prompt;
}

TrainingResult train_image_model(const ImageModelOptions& options, const TrainingHooks& hooks) {
  const PictureSet pictures(options.data);
  const PictureCodes codes = read_codes(options.codes, pictures);
  require_categories(options, pictures);
  ImageModelOptions now = options;
  now.schedule.count = std::ssize(chosen(pictures, options, /*held_out=*/false));
  ImageModelTask task(now, pictures, codes);
  return train(task, now.schedule, own_settings(now, task, pictures, codes), hooks);
}

}  // namespace talon
