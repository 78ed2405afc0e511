#include "cli/train/train_policy.h"

#include "cli/options/flags.h"
#include "cli/train/train_flags.h"

namespace talon {
namespace {

const OptionOfKinds kOptionsOfPolicies[] = {
    {"--loss", {"ada_eagle"}}, {"--lambda", {"ada_eagle"}}, {"--reward", {"radar"}},
    {"--alpha", {"radar"}},    {"--gamma", {"radar"}},      {"--pass-cost", {"radar"}},
    {"--dropout", {"radar"}},
};

class TrainPolicy : public Command {
 public:
  TrainPolicy(CLI::App& parent, TrainPolicyRunner run)
      : Command(parent.add_subcommand(
            "policy", "train the predictor of the policy ada_eagle or radar for a draft head")),
        run_(std::move(run)) {
    add_model_flag(*app_, request_.model);
    PolicyTrainOptions& train = request_.train;
    add_choice<std::string>(*app_, "--kind", train.kind,
                            {{"ada_eagle", "ada_eagle"}, {"radar", "radar"}},
                            "the policy that will load it");
    app_->add_option("-d,--drafter", train.drafter,
                     "whose drafts it learns about, as it will be used: eagle3:head=FOLDER")
        ->type_name("DRAFTER")
        ->required();
    add_out_flag(*app_, train.out, "folder for KIND.safetensors and README.md");
    add_text_options();
    add_draft_options();
    add_loss_options();
    add_schedule_options();
  }

  int run() override {
    require_kinds(*app_, kOptionsOfPolicies, request_.train.kind);
    return run_(request_);
  }

 private:
  void add_text_options() {
    const char* group = "Texts";
    add_question_flags(
        *app_, request_.questions,
        {.group = group,
         .help = "Spec-Bench questions that the target answers; not those you measure on",
         .least_new = 16})
        ->required();
    add_int(*app_, "--texts", request_.texts_at_once, 1, 256, "answers at once")->group(group);
    const char* temperatures = "--temperatures";
    app_->add_option_function<std::string>(
            temperatures,
            [=, this](const std::string& text) {
              request_.train.temperatures.clear();
              for (const std::string& word : split_list(temperatures, text))
                request_.train.temperatures.push_back(parse_real(temperatures, word, 0, 10));
            },
            "at which the answers are drawn, in turn, by --seed; 0 takes the most probable tokens")
        ->type_name("T,T,...")
        ->default_str("0")
        ->group(group);
    add_real(*app_, "--held-out", request_.train.held_out, 0.01, 0.9,
             "share of the answers that it is measured on and does not learn from")
        ->group(group);
  }

  void add_draft_options() {
    const char* group = "Drafts";
    PolicyTrainOptions& train = request_.train;
    add_int(*app_, "--most", train.most, 1, 64, "levels, as the policy's option levels")
        ->group(group);
    add_int(*app_, "--topk", train.topk, 0, 64,
            "nodes expanded per level, as the policy's; 0 for 1 in ada_eagle, 10 in radar")
        ->group(group);
    add_int(*app_, "--nodes", train.nodes, 1, 1024, "of a check, as the policy's")->group(group);
    add_real(*app_, "--pass-cost", train.pass_cost, 0, 100,
             "of a level in checks, for radar; 0 for what this machine takes")
        ->group(group);
  }

  void add_loss_options() {
    const char* group = "Loss";
    PolicyTrainOptions& train = request_.train;
    add_choice<std::string>(*app_, "--loss", train.loss,
                            {{"ordinal", "ordinal"}, {"asymmetric", "asymmetric"}},
                            "of ada_eagle: chances of each length, or the paper's length")
        ->group(group);
    add_real(*app_, "--lambda", train.lambda, 0.01, 1000,
             "asymmetric: weight of a prediction that is too short")
        ->group(group);
    add_choice<std::string>(*app_, "--reward", train.reward,
                            {{"throughput", "throughput"}, {"ratio", "ratio"}},
                            "of radar: tokens per time of all rounds, or the paper's mean")
        ->group(group);
    add_real(*app_, "--alpha", train.alpha, 0, 10, "ratio: price of each level")->group(group);
    add_real(*app_, "--gamma", train.gamma, 0.01, 1, "ratio: discount of each level")->group(group);
  }

  void add_schedule_options() {
    const char* group = "Schedule";
    PolicyTrainOptions& train = request_.train;
    add_schedule_flags(*app_, train, {"drafts of one step", "epochs"});
    add_int(*app_, "--width", train.width, 0, 1 << 16,
            "of the layers; 0 for 256 in ada_eagle, 128 in radar")
        ->group(group);
    add_int(*app_, "--epochs", train.epochs, 1, kMany, "passes over the drafts at most")
        ->group(group);
    add_real(*app_, "--dropout", train.dropout, 0, 0.9, "of radar's middle layer")->group(group);
  }

  TrainPolicyRunner run_;
  TrainPolicyRequest request_;
};

}  // namespace

std::unique_ptr<Command> make_train_policy(CLI::App& parent, TrainPolicyRunner run) {
  return std::make_unique<TrainPolicy>(parent, std::move(run));
}

}  // namespace talon
