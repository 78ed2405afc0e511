#include "train/policy/export_policy.h"

#include <span>
#include <vector>

#include "core/error.h"
#include "io/atomic_file.h"
#include "io/formats/write_safetensors.h"

namespace talon {
namespace {

using torch::Tensor;

struct NamedTensor {
  std::string name;
  Tensor value;
};

void write(const std::filesystem::path& file, const std::vector<NamedTensor>& tensors,
           const std::map<std::string, std::string>& metadata) {
  std::vector<Tensor> owned;
  std::vector<TensorToWrite> list;
  for (const auto& [name, value] : tensors) {
    owned.push_back(value.detach().to(torch::kFloat).contiguous());
    const Tensor& tensor = owned.back();
    if (!at::isfinite(tensor).all().item<bool>())
      fail("export policy: tensor \"{}\": expected finite values, found others", name);
    const auto bytes = static_cast<std::size_t>(tensor.numel()) * tensor.element_size();
    list.push_back({name,
                    StorageType::f32,
                    {tensor.sizes().begin(), tensor.sizes().end()},
                    {static_cast<const std::byte*>(tensor.data_ptr()), bytes}});
  }
  write_safetensors(file, list, metadata);
}

std::vector<NamedTensor> tensors_of(const ParameterStore& parameters) {
  std::vector<NamedTensor> tensors;
  for (const std::string& name : parameters.names())
    tensors.push_back({name, parameters[name].value.detach()});
  return tensors;
}

}  // namespace

void export_policy(const std::filesystem::path& file, const ParameterStore& parameters,
                   const std::map<std::string, std::string>& metadata) {
  write(file, tensors_of(parameters), metadata);
}

void export_length_predictor(const std::filesystem::path& file, const ParameterStore& parameters,
                             const InputScale& scale,
                             const std::map<std::string, std::string>& metadata) {
  std::vector<NamedTensor> tensors = tensors_of(parameters);
  for (NamedTensor& tensor : tensors) {
    const Tensor weight = parameters["in.weight"].value.detach() / scale.deviation;
    if (tensor.name == "in.weight") tensor.value = weight;
    if (tensor.name == "in.bias") tensor.value = tensor.value - at::mv(weight, scale.mean);
  }
  write(file, tensors, metadata);
}

void write_policy_card(const std::filesystem::path& folder, const std::string& title,
                       const Json& facts) {
  std::string text = fmt::format("# {}\n\n| what | value |\n|---|---|\n", title);
  for (const auto& [name, value] : facts.items()) {
    text += fmt::format("| {} | {} |\n", name,
                        value.is_string() ? value.get<std::string>() : value.dump());
  }
  write_file(folder / "README.md", std::as_bytes(std::span(text)));
}

}  // namespace talon
