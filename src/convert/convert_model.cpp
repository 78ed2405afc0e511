#include "convert/convert_model.h"

#include <algorithm>
#include <system_error>

#include "convert/model_tensors.h"
#include "core/error.h"
#include "io/quote.h"
#include "io/tensor_layout.h"
#include "model/config/config_readers.h"
#include "text/gguf/write_tokenizer.h"
#include "text/loaders.h"

namespace talon {
namespace {

using Visit = std::function<void(const GgufTensor&)>;

/// A model as a GGUF: its keys, and a walk over its tensors that may be taken twice.
struct Source {
  std::string architecture;
  GgufMetadata keys;
  std::function<void(const Visit&)> for_each;
  std::vector<std::string> notes;
};

/// llama_ftype of llama.cpp: what most weights are stored in.
unsigned file_type(const std::map<StorageType, std::uint64_t>& bytes) {
  constexpr std::pair<StorageType, unsigned> kTypes[] = {
      {StorageType::f32, 0},  {StorageType::f16, 1},   {StorageType::q4_0, 2},
      {StorageType::q8_0, 7}, {StorageType::bf16, 32}, {StorageType::mxfp4, 38}};
  const auto most = std::ranges::max_element(bytes, {}, [](const auto& one) { return one.second; });
  for (const auto& [type, number] : kTypes) {
    if (most != bytes.end() && most->first == type) return number;
  }
  return 1024;  // guessed
}

/// All keys but those of a file cut into several, and those that an other type of its matrices
/// makes untrue.
GgufMetadata kept_keys(const Checkpoint& gguf, bool retyped) {
  GgufMetadata keys;
  for (const auto& [key, value] : gguf.metadata.items()) {
    const bool stale = key.starts_with("split.") || key == "general.alignment" ||
                       (retyped && key == "general.file_type");
    if (!stale) keys.emplace_back(key, value);
  }
  return keys;
}

/// A tensor of a GGUF as it is.
KeptWeight whole(const StoredTensor& tensor) {
  KeptWeight weight;
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i) rows *= tensor.shape[i];
  weight.rows = static_cast<int>(rows);
  weight.cols = static_cast<int>(tensor.shape.back());
  weight.type = tensor.type;
  weight.from = tensor.bytes;
  return weight;
}

Source from_gguf(const Checkpoint& gguf, bool retyped) {
  Source source;
  source.architecture = read_model_config(gguf).architecture;
  source.keys = kept_keys(gguf, retyped);
  source.for_each = [&gguf](const Visit& visit) {
    for (const StoredTensor& tensor : gguf.tensors) {
      const KeptWeight weight = whole(tensor);
      visit({tensor.name, tensor.shape, {{&weight}}});
    }
    gguf.check_whole();
  };
  return source;
}

/// llama.cpp has no windows for these: it does not read their key, which Talon does.
bool passes_over_windows(std::string_view architecture) {
  constexpr std::string_view kNames[] = {"llama",    "qwen2", "qwen3",      "qwen2moe", "qwen3moe",
                                         "mistral3", "phi3",  "starcoder2", "phimoe"};
  return std::ranges::find(kNames, architecture) != std::end(kNames);
}

/// It has no place for these, and does not load a file with tensors that it does not know.
bool knows_no_mlp_biases(const ModelTensors& model) {
  return model.architecture() == "arcee" && model.config().plans[0].mlp_bias;
}

std::vector<std::string> notes_of(const ModelTensors& model) {
  std::vector<std::string> notes;
  const ModelConfig& config = model.config();
  if (model.leaves_prediction_out()) {
    notes.push_back(fmt::format("the prediction layer is left out: {} files have no place for it",
                                model.architecture()));
  }
  const int window = config.sliding_window;
  if (window > 0 && window < config.context && passes_over_windows(model.architecture())) {
    notes.push_back(
        fmt::format("llama.cpp has no window for {} files: behind {} tokens it answers "
                    "otherwise than Talon",
                    model.architecture(), window));
  }
  if (knows_no_mlp_biases(model)) {
    notes.push_back(
        fmt::format("llama.cpp does not load the file: to it {} files have no biases "
                    "of the feed-forward network",
                    model.architecture()));
  }
  return notes;
}

Source from_files(const Checkpoint& checkpoint) {
  const auto model = std::make_shared<ModelTensors>(checkpoint);  // of the walk, which is copied
  Source source;
  source.architecture = model->architecture();
  source.notes = notes_of(*model);
  std::string name = checkpoint.path.filename().string();
  if (name.empty()) name = checkpoint.path.parent_path().filename().string();
  source.keys = {{"general.architecture", model->architecture()},
                 {"general.type", "model"},
                 {"general.name", name},
                 {"general.quantization_version", 2U}};
  const auto append = [&](const GgufMetadata& keys) {
    source.keys.insert(source.keys.end(), keys.begin(), keys.end());
  };
  append(model->keys());
  if (has_tokenizer_beside(checkpoint)) {
    append(write_gguf_tokenizer(checkpoint, model->config().vocabulary, model->architecture()));
  } else {
    source.keys.emplace_back("tokenizer.ggml.model", "no_vocab");
    const std::vector<TokenId>& ends = model->config().end_tokens;
    if (ends.size() > kGgufEndTokens) {
      fail(
          "convert {}: expected at most {} end tokens where no tokenizer lies beside the model, "
          "found {}",
          quote(checkpoint.path.string()), kGgufEndTokens, ends.size());
    }
    append(gguf_end_tokens(ends));
    source.notes.emplace_back("no tokenizer lies beside the model, so the file has none");
  }
  source.for_each = [model](const Visit& visit) { model->for_each(visit); };
  return source;
}

/// What the file will hold, before anything is written.
struct Plan {
  std::vector<TensorOutline> tensors;
  std::map<StorageType, std::uint64_t> bytes;
  std::uint64_t total = 0;
};

void check_stop(const ConvertOptions& options) {
  if (options.stop && options.stop->requested()) throw Interrupted();
}

Plan plan_file(const Source& source, const ConvertOptions& options) {
  Plan plan;
  source.for_each([&](const GgufTensor& tensor) {
    check_stop(options);
    const StorageType type = stored_type(tensor, options.type);
    const auto bytes = stored_bytes(type, tensor.shape);
    if (!bytes) {
      fail("convert {}: expected rows of whole {} blocks, found {}", quote(tensor.name),
           name_of(type), show_shape(tensor.shape));
    }
    plan.tensors.push_back({tensor.name, type, tensor.shape});
    plan.bytes[type] += *bytes;
    plan.total += *bytes;
    if (options.progress) options.progress(plan.total, 0);
  });
  return plan;
}

void write_tensors(const Source& source, const Plan& plan, const ConvertOptions& options,
                   GgufWriter& file) {
  std::size_t next = 0;
  std::uint64_t done = 0;
  source.for_each([&](const GgufTensor& tensor) {
    const TensorOutline& outline = plan.tensors.at(next++);
    expects(outline.name == tensor.name, "tensors in the order of the plan");
    for_each_piece(tensor, outline.type, [&](std::span<const std::byte> bytes) {
      check_stop(options);
      file.write(bytes);
      done += bytes.size();
    });
    if (options.progress) options.progress(done, plan.total);
  });
}

}  // namespace

void refuse_own_file(const Checkpoint& source, const std::filesystem::path& file) {
  for (const MappedFile& read : source.files) {
    std::error_code missing;
    if (!std::filesystem::equivalent(read.path(), file, missing)) continue;
    fail("convert {}: expected a new file to write, found {}, which is read",
         quote(source.path.string()), quote(file.string()));
  }
}

ConvertReport convert_model(const Checkpoint& model, const std::filesystem::path& file,
                            const ConvertOptions& options) {
  refuse_own_file(model, file);
  const bool gguf = model.format == CheckpointFormat::gguf;
  Source source = gguf ? from_gguf(model, options.type.has_value()) : from_files(model);
  const Plan plan = plan_file(source, options);
  const auto stated = [](const auto& key) { return key.first == "general.file_type"; };
  if (std::ranges::none_of(source.keys, stated)) {
    source.keys.emplace_back("general.file_type", file_type(plan.bytes));
  }
  GgufWriter writer(file, source.keys, plan.tensors);
  write_tensors(source, plan, options, writer);
  writer.commit();
  ConvertReport report;
  report.architecture = source.architecture;
  report.bytes = plan.total;
  report.notes = source.notes;
  for (const TensorOutline& tensor : plan.tensors) ++report.tensors[tensor.type];
  return report;
}

}  // namespace talon
