#include "train/image/training_run.h"

#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>

#include "core/error.h"
#include "io/atomic_file.h"
#include "io/formats/write_safetensors.h"
#include "io/json_text.h"

namespace talon {
namespace {

using torch::Tensor;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kDone = "done";  // there when all of a run's files are written
// Settings that checkpoints of before do not have.
constexpr std::string_view kAddedSettings[] = {"contents_sha256", "codes_precision"};

StorageType storage_of(torch::ScalarType type) {
  switch (type) {
    case torch::kHalf:
      return StorageType::f16;
    case torch::kBFloat16:
      return StorageType::bf16;
    case torch::kLong:
      return StorageType::i64;
    case torch::kInt:
      return StorageType::i32;
    default:
      expects(type == torch::kFloat, "a type that is written");
      return StorageType::f32;
  }
}

/// Of a checkpoint's metadata.
Json json_in(const Checkpoint& checkpoint, const char* name, const std::string& doing) {
  if (!checkpoint.metadata.contains(name) || !checkpoint.metadata[name].is_string())
    fail("{}: expected a checkpoint of talon train image, found no \"{}\"", doing, name);
  return parse_json(checkpoint.metadata[name].get<std::string>(), doing);
}

std::string line_of(const Measures& measures) {
  std::string line;
  for (const auto& [name, value] : measures) line += fmt::format(" {} {:.4g}", name, value);
  return line;
}

class Run {
 public:
  Run(TrainingTask& task, const ImageSchedule& schedule, const Json& settings,
      const TrainingHooks& hooks);
  TrainingResult run();

 private:
  void start_or_resume();
  void resume(const std::filesystem::path& file);
  void begin_with(const std::filesystem::path& file);
  void read_values(const Checkpoint& checkpoint);
  void change_length(double epochs);
  bool is_finished() const;
  void forget_end() const;
  void save();
  void learn_once();
  void say(const Measures& measures, double norm);
  void evaluate();
  Json facts() const;
  double progress() const { return static_cast<double>(place_) / static_cast<double>(planned_); }
  std::filesystem::path at(std::string_view name) const {
    return std::filesystem::path(schedule_.out) / name;
  }

  TrainingTask& task_;
  const ImageSchedule& schedule_;
  Json settings_;
  const TrainingHooks& hooks_;
  Optimizer optimizer_;
  std::int64_t planned_;
  std::int64_t place_ = 0;        // pictures learned from
  double seconds_ = 0;            // spent on them
  Json last_evaluation_;          // its measures
  Json lengths_ = Json::array();  // that were planned before: until_iteration, epochs
  bool changes_length_ = false;   // other epochs are asked for than the checkpoint has
  std::optional<CurveFile> curve_, evaluations_;
};

Run::Run(TrainingTask& task, const ImageSchedule& schedule, const Json& settings,
         const TrainingHooks& hooks)
    : task_(task),
      schedule_(schedule),
      settings_(settings),
      hooks_(hooks),
      optimizer_(task.parameters(), {.rate = schedule.rate,
                                     .warmup = static_cast<double>(schedule.warmup),
                                     .decline = Decline::cosine,
                                     .clip = schedule.clip,
                                     .weight_decay = schedule.weight_decay,
                                     .average = 0}),  // the rate ends at nothing instead
      planned_(std::llround(schedule.epochs * static_cast<double>(schedule.count))) {
  settings_.update(settings_of(schedule));
  if (planned_ < 1) {
    throw UsageError(fmt::format(
        "train image: expected a picture to learn from at least, got --epochs {} of {} pictures "
        "that are not held out",
        schedule.epochs, schedule.count));
  }
  start_or_resume();
}

void Run::start_or_resume() {
  std::error_code problem;
  std::filesystem::create_directories(schedule_.out, problem);
  if (problem) fail("train image: cannot make {}: {}", schedule_.out, problem.message());
  if (const auto file = at("checkpoint.safetensors"); std::filesystem::exists(file)) {
    resume(file);
  } else if (!schedule_.start.empty()) {
    begin_with(schedule_.start);
  }
  curve_.emplace(at("curve.csv"), optimizer_.iterations);
  evaluations_.emplace(at("evaluations.csv"), optimizer_.iterations);
}

void Run::resume(const std::filesystem::path& file) {
  const Checkpoint checkpoint = read_safetensors(file);
  const std::string doing = "resume " + file.string();
  const Json found = json_in(checkpoint, "settings", doing);
  for (const auto& [name, value] : settings_.items()) {
    if (name == "epochs" || (found.contains(name) && found[name] == value)) continue;
    if (!found.contains(name) &&
        std::ranges::find(kAddedSettings, name) != std::end(kAddedSettings))
      continue;
    fail("{}: setting \"{}\": expected {}, as asked for, found {}: use another --out", doing, name,
         value.dump(), found.value(name, Json()).dump());
  }
  const Json state = json_in(checkpoint, "state", doing);
  try {
    state.at("iterations").get_to(optimizer_.iterations);
    state.at("place").get_to(place_);
    state.at("seconds").get_to(seconds_);
    last_evaluation_ = state.at("evaluation");
    lengths_ = state.value("lengths", Json::array());
    const double before = found.at("epochs").get<double>();
    if (before != schedule_.epochs) change_length(before);
  } catch (const Json::exception& problem) {
    fail("{}: state: {}", doing, problem.what());
  }
  const torch::NoGradGuard no_gradient;
  read_tensor(checkpoint, "first_moment", optimizer_.first_moment);
  read_tensor(checkpoint, "second_moment", optimizer_.second_moment);
  read_values(checkpoint);
  hooks_.log(
      fmt::format("resumed at iteration {}, {:.1f} %", optimizer_.iterations, 100 * progress()));
}

/// Takes over what another run has learned, and none of its steps.
void Run::begin_with(const std::filesystem::path& file) {
  const Checkpoint checkpoint = read_safetensors(file);
  const std::string doing = "start from " + file.string();
  const Json found = json_in(checkpoint, "settings", doing);
  for (const char* name : {"kind", "shape"}) {
    if (!settings_.contains(name) || found.value(name, Json()) == settings_[name]) continue;
    fail("{}: setting \"{}\": expected {}, as asked for, found {}", doing, name,
         settings_[name].dump(), found.value(name, Json()).dump());
  }
  const torch::NoGradGuard no_gradient;
  read_values(checkpoint);
}

void Run::read_values(const Checkpoint& checkpoint) {
  read_tensor(checkpoint, "values", task_.parameters().values());
  for (const auto& [name, tensor] : task_.extra_state()) read_tensor(checkpoint, name, tensor);
  task_.parameters().refresh_low();
  task_.resumed();
}

/// The rate follows the new length from here on.
void Run::change_length(double epochs) {
  if (place_ > planned_) {
    fail("train image: epochs: {} has seen {} pictures already: expected at least {:.2f}, found {}",
         schedule_.out, place_, static_cast<double>(place_) / static_cast<double>(schedule_.count),
         schedule_.epochs);
  }
  changes_length_ = true;
  lengths_.push_back({{"until_iteration", optimizer_.iterations}, {"epochs", epochs}});
  hooks_.log(fmt::format("goes on to {} epochs, where {} were planned", schedule_.epochs, epochs));
}

void Run::save() {
  std::vector<std::pair<std::string, Tensor>> tensors = {
      {"values", task_.parameters().values()},
      {"first_moment", optimizer_.first_moment},
      {"second_moment", optimizer_.second_moment}};
  for (const auto& extra : task_.extra_state()) tensors.push_back(extra);
  const Json state = {{"iterations", optimizer_.iterations},
                      {"place", place_},
                      {"seconds", seconds_},
                      {"evaluation", last_evaluation_},
                      {"lengths", lengths_}};
  write_tensors(at("checkpoint.safetensors"), tensors,
                {{"state", state.dump()}, {"settings", settings_.dump()}});
}

void Run::learn_once() {
  const auto begin = Clock::now();
  const bool log = (optimizer_.iterations + 1) % schedule_.log_every == 0;
  const auto left = static_cast<int>(std::min<std::int64_t>(schedule_.batch, planned_ - place_));
  const Measures measures = task_.learn(place_, left, log);
  const double norm = optimizer_.step(progress());
  if (!std::isfinite(norm)) {
    fail(
        "train image: iteration {}: the gradient is not finite: lower --rate; the last good "
        "checkpoint is kept in {}",
        optimizer_.iterations + 1, schedule_.out);
  }
  place_ += left;
  seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
  if (log) say(measures, norm);
}

void Run::say(const Measures& measures, double norm) {
  CurveRow row = {{"iteration", static_cast<double>(optimizer_.iterations)},
                  {"pictures", static_cast<double>(place_)},
                  {"seconds", seconds_},
                  {"norm", norm}};
  row.insert(row.end(), measures.begin(), measures.end());
  curve_->append(row);
  hooks_.log(fmt::format("iteration {}: {} pictures, {:.1f}/s, {:.1f} %,{}", optimizer_.iterations,
                         place_, static_cast<double>(place_) / std::max(seconds_, 1e-9),
                         100 * progress(), line_of(measures)));
}

void Run::evaluate() {
  const Measures measures = task_.evaluate();
  last_evaluation_ = Json::object();
  for (const auto& [name, value] : measures) last_evaluation_[name] = value;
  CurveRow row = {{"iteration", static_cast<double>(optimizer_.iterations)},
                  {"pictures", static_cast<double>(place_)},
                  {"seconds", seconds_}};
  row.insert(row.end(), measures.begin(), measures.end());
  evaluations_->append(row);
  hooks_.log(fmt::format("held out at iteration {}:{}", optimizer_.iterations, line_of(measures)));
}

Json Run::facts() const {
  return {{"iterations", optimizer_.iterations},
          {"pictures", place_},
          {"seconds", std::round(seconds_)},
          {"evaluation", last_evaluation_},
          {"planned_before", lengths_},
          {"start", schedule_.start},
          {"settings", settings_}};
}

bool Run::is_finished() const {
  return place_ >= planned_ && !changes_length_ && std::filesystem::exists(at(kDone));
}

/// What was written at the end of a shorter run is not what this one ends with, until it has ended.
void Run::forget_end() const {
  std::error_code problem;
  std::filesystem::remove(at(kDone), problem);
  if (problem) fail("train image: cannot remove {}: {}", at(kDone).string(), problem.message());
}

TrainingResult Run::run() {
  if (is_finished()) {
    hooks_.log("finished already");
    return {true, facts()};
  }
  forget_end();
  const auto every = [&](int period) { return optimizer_.iterations % period == 0; };
  while (place_ < planned_) {
    learn_once();
    if (every(schedule_.evaluate_every) && place_ < planned_) evaluate();
    if (every(schedule_.checkpoint_every)) save();
    if (hooks_.stop && hooks_.stop->requested()) {
      save();
      return {false, facts()};
    }
  }
  save();
  evaluate();
  task_.write(schedule_.out, facts());
  write_curve_page(at("curves.html"), {curve_->path(), evaluations_->path()});
  const std::string text = facts().dump(1) + "\n";
  write_file(at(kDone), std::as_bytes(std::span(text)));
  return {true, facts()};
}

}  // namespace

TrainingResult train(TrainingTask& task, const ImageSchedule& schedule, const Json& settings,
                     const TrainingHooks& hooks) {
  at::set_num_threads(schedule.threads);
  return Run(task, schedule, settings, hooks).run();
}

void write_tensors(const std::filesystem::path& file,
                   const std::vector<std::pair<std::string, Tensor>>& tensors,
                   const std::map<std::string, std::string>& metadata) {
  std::vector<Tensor> kept;
  std::vector<TensorToWrite> all;
  for (const auto& [name, tensor] : tensors) {
    kept.push_back(tensor.detach().contiguous());
    const Tensor& one = kept.back();
    all.push_back({name,
                   storage_of(one.scalar_type()),
                   {one.sizes().begin(), one.sizes().end()},
                   {static_cast<const std::byte*>(one.data_ptr()),
                    static_cast<std::size_t>(one.numel()) * one.element_size()}});
  }
  write_safetensors(file, all, metadata);
}

void read_tensor(const Checkpoint& file, const std::string& name, Tensor to) {
  const StoredTensor& stored = file.require(name);
  const auto bytes = static_cast<std::size_t>(to.numel()) * to.element_size();
  if (stored.type != storage_of(to.scalar_type()) || stored.bytes.size() != bytes) {
    fail("load {}: tensor \"{}\": expected {} values of {}, found {} of [{}]", file.path.string(),
         name, to.numel(), name_of(storage_of(to.scalar_type())), name_of(stored.type),
         fmt::join(stored.shape, ", "));
  }
  const Tensor values = torch::empty(to.sizes(), to.options());
  std::memcpy(values.data_ptr(), stored.bytes.data(), bytes);
  const torch::NoGradGuard no_gradient;
  to.copy_(values);
}

}  // namespace talon
