#include "train/head/train_state.h"

#include <cstring>

#include "core/error.h"
#include "io/checkpoint.h"
#include "io/formats/write_safetensors.h"
#include "io/json_text.h"
#include "train/head/export_head.h"

namespace talon {
namespace {

std::span<const std::byte> bytes_of(const torch::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.data_ptr()),
          static_cast<std::size_t>(tensor.numel()) * tensor.element_size()};
}

Json to_json(const TrainState& state, const Optimizer& optimizer) {
  return {{"iterations", optimizer.iterations},
          {"pairs", state.pairs},
          {"planned", state.planned},
          {"data_pairs", state.data_pairs},
          {"seconds", state.seconds},
          {"epoch", state.epoch},
          {"epoch_size", state.epoch_size},
          {"next", state.next},
          {"best", state.best},
          {"best_scores", state.best_scores},
          {"best_facts", state.best_facts},
          {"measured_with", state.measured_with},
          {"since_best", state.since_best},
          {"evaluated", state.evaluated},
          {"concluded", state.concluded},
          {"scales", {{"taps", state.scales.taps}, {"last", state.scales.last}}}};
}

/// A text of the file's metadata as JSON.
Json metadata_of(const Checkpoint& checkpoint, const char* name, const std::string& doing) {
  if (!checkpoint.metadata.contains(name) || !checkpoint.metadata[name].is_string())
    fail("{}: expected a checkpoint of talon train head, found no \"{}\"", doing, name);
  return parse_json(checkpoint.metadata[name].get<std::string>(), doing);
}

void check_settings(const std::filesystem::path& file, const Json& expected, const Json& found) {
  Json all = found;
  all.update(expected);
  for (const auto& [name, either] : all.items()) {
    const Json asked = expected.value(name, Json()), is = found.value(name, Json());
    if (asked == is) continue;
    fail("resume {}: setting \"{}\": expected {}, as asked for, found {}: use another --out",
         file.string(), name, asked.dump(), is.dump());
  }
}

void copy_tensor(const Checkpoint& checkpoint, const char* name, torch::Tensor to) {
  const StoredTensor& stored = checkpoint.require(name);
  torch::Tensor values = torch::empty(to.sizes(), to.options().device(torch::kCPU));
  if (stored.bytes.size() != bytes_of(values).size())
    fail("load {}: tensor \"{}\": expected {} values, found {} bytes", checkpoint.path.string(),
         name, to.numel(), stored.bytes.size());
  std::memcpy(values.data_ptr(), stored.bytes.data(), stored.bytes.size());
  const torch::NoGradGuard no_gradient;
  to.copy_(values);
}

}  // namespace

void save_checkpoint(const std::filesystem::path& file, const TrainState& state,
                     const Json& settings, const ParameterStore& parameters,
                     const Optimizer& optimizer) {
  std::vector<torch::Tensor> kept;
  std::vector<TensorToWrite> tensors;
  const auto add = [&](const char* name, const torch::Tensor& tensor) {
    kept.push_back(tensor.to(torch::kCPU));
    const StorageType type =
        tensor.scalar_type() == torch::kDouble ? StorageType::f64 : StorageType::f32;
    tensors.push_back({name, type, {tensor.numel()}, bytes_of(kept.back())});
  };
  add("values", parameters.values());
  add("first_moment", optimizer.first_moment);
  add("second_moment", optimizer.second_moment);
  add("average", optimizer.average);
  tensors.push_back({"counts",
                     StorageType::i64,
                     {static_cast<std::int64_t>(state.counts.size())},
                     std::as_bytes(std::span(state.counts))});
  tensors.push_back({"frequent",
                     StorageType::i32,
                     {static_cast<std::int64_t>(state.frequent.size())},
                     std::as_bytes(std::span(state.frequent))});
  write_safetensors(file, tensors,
                    {{"state", to_json(state, optimizer).dump()}, {"settings", settings.dump()}});
}

void load_checkpoint(const std::filesystem::path& file, const Json& settings, TrainState& state,
                     ParameterStore& parameters, Optimizer& optimizer) {
  const Checkpoint checkpoint = read_safetensors(file);
  const std::string doing = "resume " + file.string();
  check_settings(file, settings, metadata_of(checkpoint, "settings", doing));
  const Json json = metadata_of(checkpoint, "state", doing);
  try {
    json.at("iterations").get_to(optimizer.iterations);
    json.at("pairs").get_to(state.pairs);
    json.at("planned").get_to(state.planned);
    json.at("seconds").get_to(state.seconds);
    json.at("epoch").get_to(state.epoch);
    json.at("epoch_size").get_to(state.epoch_size);
    json.at("next").get_to(state.next);
    json.at("best").get_to(state.best);
    json.at("since_best").get_to(state.since_best);
    state.data_pairs = json.value("data_pairs", std::int64_t{0});  // older ones lack what follows
    state.evaluated = json.value("evaluated", optimizer.iterations);
    if (json.contains("measured_with")) {
      json.at("best_scores").get_to(state.best_scores);
      state.best_facts = json.at("best_facts");
      state.measured_with = json.at("measured_with");
      json.at("concluded").get_to(state.concluded);
    }
  } catch (const Json::exception& problem) {
    fail("{}: state: {}", doing, problem.what());
  }
  copy_tensor(checkpoint, "values", parameters.values());
  copy_tensor(checkpoint, "first_moment", optimizer.first_moment);
  copy_tensor(checkpoint, "second_moment", optimizer.second_moment);
  copy_tensor(checkpoint, "average", optimizer.average);
  const auto integers = [&](const char* name, auto& to) {
    const StoredTensor& stored = checkpoint.require(name);
    to.resize(stored.bytes.size() / sizeof(to[0]));
    if (!to.empty()) std::memcpy(to.data(), stored.bytes.data(), stored.bytes.size());
  };
  integers("counts", state.counts);
  integers("frequent", state.frequent);
  parameters.refresh_low();
}

std::optional<FeatureScales> stored_scales(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file) || is_head_file(file)) return std::nullopt;
  const std::string doing = "read " + file.string();
  const Json state = metadata_of(read_safetensors(file), "state", doing);
  if (!state.contains("scales")) return std::nullopt;
  try {
    const Json& scales = state["scales"];
    return FeatureScales{.taps = scales.at("taps"), .last = scales.at("last")};
  } catch (const Json::exception& problem) {
    fail("{}: state: {}", doing, problem.what());
  }
}

void load_start(const std::filesystem::path& path, const HeadShape& shape, const DatasetInfo& data,
                const ModelConfig& target, ParameterStore& parameters) {
  if (is_head_file(path)) {
    import_head(path, shape, parameters);
    return check_form(path, shape.kind, data, target);
  }
  copy_tensor(read_safetensors(path), "average", parameters.values());
  parameters.refresh_low();
}

}  // namespace talon
