#include "serve/metrics/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <deque>

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
    for (std::size_t position = 0; position < SpeculationSums::kPositions; ++position) {
      per_position_.push_back(
          &families_.counter("talon:spec_decode_num_accepted_tokens_per_pos_total",
                             "Draft tokens that became text, by their place in the round.",
                             with(labels_, "position", std::to_string(position))));
    }
  }

  void first_token(double seconds) override { first_token_.Observe(seconds); }
  void gap(double seconds) override { gap_.Observe(seconds); }
  void ended(FinishReason reason, double seconds) override {
    request_.Observe(seconds);
    families_
        .counter("talon:request_success_total", "Answers by how they ended.",
                 with(labels_, "finished_reason", std::string(name_of(reason))))
        .Increment();
  }
  void waited(double seconds) override { queue_.Observe(seconds); }
  void set(const HostStatistics& statistics) override {
    running_.Set(statistics.running);
    waiting_.Set(statistics.waiting);
    cache_.Set(statistics.cache_used);
    raise(prompt_tokens_, statistics.prompt_tokens);
    raise(prefix_queries_, statistics.prompt_tokens);
    raise(prefix_hits_, statistics.reused_tokens);
    raise(answer_tokens_, statistics.answer_tokens);
    raise(preemptions_, statistics.preemptions);
    raise(drafts_, statistics.speculation.drafts);
    raise(draft_tokens_, statistics.speculation.drafted);
    raise(accepted_, statistics.speculation.accepted);
    for (std::size_t place = 0; place < per_position_.size(); ++place) {
      raise(*per_position_[place], statistics.speculation.accepted_at[place]);
    }
    const EngineStatistics::Throws& throws = statistics.faults.throws;
    raise(faults_,
          throws.sequence + throws.policy + throws.drafter + throws.observer + throws.backend);
    raise(dropped_, statistics.faults.dropped);
    raise(lost_rows_, statistics.faults.lost_draft_rows);
  }

 private:
  static void raise(Counter& counter, long value) {
    counter.Increment(std::max(0.0, static_cast<double>(value) - counter.Value()));
  }
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
  Histogram& queue_ = histogram("talon:request_queue_time_seconds",
                                "Of an answer, waiting for room in the cache.", kFirstTokenSeconds);
  Gauge& running_ = families_.gauge("talon:num_requests_running", "Answers being made.", labels_);
  Gauge& waiting_ = families_.gauge("talon:num_requests_waiting",
                                    "Answers that wait for room in the cache.", labels_);
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
  Counter& dropped_ =
      counter("talon:spec_decode_num_dropped_total",
              "Answers that went on without drafts, since their drafter or policy threw.");
  Counter& lost_rows_ = counter("talon:spec_decode_num_lost_rows_total",
                                "Rows of text that draft heads had no room for.");
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
