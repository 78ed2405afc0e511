#include "serve/metrics/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <deque>
#include <numeric>

namespace talon {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;
using Labels = std::map<std::string, std::string>;

const Histogram::BucketBoundaries kFirstTokenSeconds = {
    0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
const Histogram::BucketBoundaries kGapSeconds = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5};
const Histogram::BucketBoundaries kRequestSeconds = {0.1, 0.3, 0.5, 0.8, 1,  1.5, 2,  2.5, 5,
                                                     10,  15,  20,  30,  40, 50,  60, 120, 240};

constexpr std::size_t kMostPositions = 16;  // of accepted tokens within a round

class Families {
 public:
  explicit Families(Registry& registry) : registry_(registry) {}
  Counter& counter(const char* name, const char* help, const Labels& labels) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry_).Add(labels);
  }
  Gauge& gauge(const char* name, const char* help, const Labels& labels) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(labels);
  }
  Histogram& histogram(const char* name, const char* help, const Labels& labels,
                       const Histogram::BucketBoundaries& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry_).Add(labels,
                                                                                      buckets);
  }

 private:
  Registry& registry_;
};

Labels with(Labels labels, const char* name, std::string value) {
  labels[name] = std::move(value);
  return labels;
}

class OneModel final : public ModelMetrics {
 public:
  OneModel(Families families, const Labels& labels) : families_(families), labels_(labels) {
    for (std::size_t position = 0; position < kMostPositions; ++position) {
      per_position_.push_back(
          &families_.counter("talon:spec_decode_num_accepted_tokens_per_pos_total",
                             "Draft tokens that became text, by their place in the round.",
                             with(labels_, "position", std::to_string(position))));
    }
  }

  void first_token(double seconds) override { first_token_.Observe(seconds); }
  void gap(double seconds) override { gap_.Observe(seconds); }
  void ended(FinishReason reason, const SequenceStatistics& statistics, double seconds) override {
    request_.Observe(seconds);
    families_
        .counter("talon:request_success_total", "Answers by how they ended.",
                 with(labels_, "finished_reason", std::string(name_of(reason))))
        .Increment();
    prompt_tokens_.Increment(statistics.prompt_tokens);
    answer_tokens_.Increment(statistics.answer_tokens);
    prefix_queries_.Increment(statistics.prompt_tokens);
    prefix_hits_.Increment(statistics.reused_tokens);
    const auto sum = [](const std::vector<int>& values) {
      return std::accumulate(values.begin(), values.end(), 0.0);
    };
    drafts_.Increment(
        static_cast<double>(std::count_if(statistics.drafted.begin(), statistics.drafted.end(),
                                          [](int nodes) { return nodes > 0; })));
    draft_tokens_.Increment(sum(statistics.drafted));
    accepted_.Increment(sum(statistics.accepted));
    for (const int accepted : statistics.accepted) {
      const auto places = std::min(static_cast<std::size_t>(accepted), kMostPositions);
      for (std::size_t place = 0; place < places; ++place) per_position_[place]->Increment();
    }
  }
  void set(const HostStatistics& statistics) override {
    running_.Set(statistics.running);
    waiting_.Set(statistics.waiting);
    cache_.Set(statistics.cache_used);
    const auto raise = [](Counter& counter, double value) {
      counter.Increment(std::max(0.0, value - counter.Value()));
    };
    raise(preemptions_, static_cast<double>(statistics.preemptions));
    const EngineStatistics::Throws& throws = statistics.faults.throws;
    const long faults =
        throws.sequence + throws.policy + throws.drafter + throws.observer + throws.backend;
    raise(faults_, static_cast<double>(faults));
  }

 private:
  Counter& counter(const char* name, const char* help) {
    return families_.counter(name, help, labels_);
  }
  Histogram& histogram(const char* name, const char* help,
                       const Histogram::BucketBoundaries& buckets) {
    return families_.histogram(name, help, labels_, buckets);
  }

  Families families_;
  Labels labels_;
  Histogram& first_token_ = histogram("talon:time_to_first_token_seconds",
                                      "From a request to its first token.", kFirstTokenSeconds);
  Histogram& gap_ = histogram("talon:inter_token_latency_seconds",
                              "Between news of a running answer.", kGapSeconds);
  Histogram& request_ =
      histogram("talon:e2e_request_latency_seconds", "From a request to its end.", kRequestSeconds);
  Gauge& running_ = families_.gauge("talon:num_requests_running", "Answers being made.", labels_);
  Gauge& waiting_ = families_.gauge("talon:num_requests_waiting",
                                    "Answers that wait for their first token.", labels_);
  Gauge& cache_ = families_.gauge("talon:kv_cache_usage_perc",
                                  "Share of the cache that running answers hold.", labels_);
  Counter& prompt_tokens_ = counter("talon:prompt_tokens_total", "Tokens of prompts.");
  Counter& answer_tokens_ = counter("talon:generation_tokens_total", "Tokens of answers.");
  Counter& prefix_queries_ =
      counter("talon:prefix_cache_queries_total", "Prompt tokens looked for in the cache.");
  Counter& prefix_hits_ =
      counter("talon:prefix_cache_hits_total", "Prompt tokens found in the cache.");
  Counter& preemptions_ =
      counter("talon:num_preemptions_total", "Answers that gave their room to older ones.");
  Counter& faults_ = counter("talon:engine_faults_total", "Exceptions contained by the engine.");
  Counter& drafts_ = counter("talon:spec_decode_num_drafts_total", "Trees that were checked.");
  Counter& draft_tokens_ =
      counter("talon:spec_decode_num_draft_tokens_total", "Draft tokens that were checked.");
  Counter& accepted_ =
      counter("talon:spec_decode_num_accepted_tokens_total", "Draft tokens that became text.");
  std::vector<Counter*> per_position_;
};

}  // namespace

struct Metrics::State {
  Registry registry{Registry::InsertBehavior::Merge};
  std::deque<OneModel> models;
};

Metrics::Metrics() : state_(std::make_unique<State>()) {}
Metrics::~Metrics() = default;

ModelMetrics& Metrics::add(const std::string& model) {
  return state_->models.emplace_back(Families(state_->registry), Labels{{"model_name", model}});
}

void Metrics::count_response(int status) {
  Families(state_->registry)
      .counter("talon:http_responses_total", "Answers to HTTP requests by status.",
               {{"code", std::to_string(status)}})
      .Increment();
}

std::string Metrics::text() const {
  return prometheus::TextSerializer().Serialize(state_->registry.Collect());
}

}  // namespace talon
