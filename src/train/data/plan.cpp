#include "train/data/plan.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <unordered_set>

#include "train/data/checksum.h"

namespace talon {
namespace {

enum Purpose : std::uint64_t { kJob = 1, kSeed = 2, kTemperature = 3 };

/// Successive samples of a prompt are spread evenly over the mix of temperatures, however many
/// there are.
constexpr double kGoldenRatio = 0.6180339887498949;

double uniform_of(std::uint64_t number) { return static_cast<double>(number >> 11) * 0x1p-53; }

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// Adds the answers to the newest prompt that this shard makes.
void add_jobs(DataPlan& plan, std::uint64_t text, const PlanOptions& options) {
  const double start = uniform_of(checksum({kTemperature, text, options.seed}));
  bool greedy = false;
  for (int sample = 0; sample < options.samples; ++sample) {
    const auto number = static_cast<std::uint64_t>(sample);
    const double place = start + sample * kGoldenRatio;
    DataJob job;
    job.temperature = static_cast<float>(options.temperatures.at(place - std::floor(place)));
    if (job.temperature == 0 && std::exchange(greedy, true)) continue;
    job.seed = checksum({kSeed, text, options.seed, number});
    job.id = checksum({kJob, text, job.temperature == 0 ? 0 : job.seed,
                       static_cast<std::uint64_t>(options.max_new),
                       checksum(std::as_bytes(std::span(&job.temperature, 1)))});
    if (options.guidance > 1)
      job.id = checksum({job.id, checksum(std::as_bytes(std::span(&options.guidance, 1)))});
    job.prompt = static_cast<std::uint32_t>(plan.prompts.size() - 1);
    job.sample = sample;
    if (job.id % static_cast<std::uint64_t>(options.shards) ==
        static_cast<std::uint64_t>(options.shard)) {
      plan.jobs.push_back(job);
    }
  }
}

/// All first answers come before all second ones, each in the order of their ids.
void sort_jobs(DataPlan& plan) {
  std::sort(plan.jobs.begin(), plan.jobs.end(), [](const DataJob& a, const DataJob& b) {
    return std::tuple(a.sample, a.id) < std::tuple(b.sample, b.id);
  });
}

std::uint64_t checksum_of(const std::vector<TokenId>& tokens) {
  return checksum(std::as_bytes(std::span(tokens)));
}

}  // namespace

DataPlan plan_prompts(std::span<const Prompt> prompts, const EncodePrompt& encode,
                      const Overlap& held_out, const PlanOptions& options) {
  DataPlan plan;
  std::unordered_set<std::uint64_t> seen;
  for (const Prompt& prompt : prompts) {
    ++plan.read;
    const std::string text(trimmed(prompt.text));
    const std::uint64_t name = checksum(text);
    if (!seen.insert(name).second) {
      ++plan.duplicates;
    } else if (held_out.touches(text)) {
      ++plan.held_out;
    } else if (auto tokens = encode(text);
               tokens.empty() || static_cast<int>(tokens.size()) > options.max_prompt) {
      ++plan.too_long;
    } else {
      plan.prompts.push_back({std::move(tokens), 0, prompt.source});
      add_jobs(plan, name, options);
    }
  }
  sort_jobs(plan);
  return plan;
}

DataPlan plan_responses(std::span<const ReadyResponse> responses, const PlanOptions& options) {
  DataPlan plan;
  std::unordered_set<std::uint64_t> seen;
  for (const ReadyResponse& ready : responses) {
    ++plan.read;
    const std::uint64_t name = checksum({checksum_of(ready.prompt), checksum_of(ready.response)});
    if (!seen.insert(name).second) {
      ++plan.duplicates;
      continue;
    }
    const auto prompt = static_cast<int>(ready.prompt.size());
    const auto response = static_cast<int>(ready.response.size());
    if (prompt > options.max_prompt || response > options.max_new ||
        (options.context > 0 && prompt + response > options.context)) {
      ++plan.too_long;
      continue;
    }
    AskedPrompt asked{ready.prompt, prompt, ready.source};
    asked.tokens.insert(asked.tokens.end(), ready.response.begin(), ready.response.end());
    plan.prompts.push_back(std::move(asked));
    if (name % static_cast<std::uint64_t>(options.shards) !=
        static_cast<std::uint64_t>(options.shard)) {
      continue;
    }
    plan.jobs.push_back({name, 0, static_cast<std::uint32_t>(plan.prompts.size() - 1), 0,
                         static_cast<float>(ready.temperature)});
  }
  sort_jobs(plan);
  return plan;
}

}  // namespace talon
