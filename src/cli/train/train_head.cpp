#include "cli/train/train_head.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "cli/options/flags.h"
#include "cli/train/train_flags.h"
#include "core/error.h"
#include "train/head/head_kind.h"

namespace talon {
namespace {

const OptionOfKinds kOptionsOfHeads[] = {
    {"--intermediate", {"eagle", "eagle3", "dflash", "peagle", "draft"}},
    {"--medusa-layers", {"medusa"}},
    {"--layers", {"dflash", "peagle", "draft"}},
    {"--anchors", {"dflash", "peagle"}},
    {"--draft-vocab", {"eagle", "eagle3", "medusa", "dflash", "peagle"}},
    {"--weights", {"eagle", "eagle3", "medusa", "dflash", "peagle"}},
    {"--steps", {"eagle", "eagle3", "medusa", "dflash", "peagle"}},
    {"--noise", {"eagle"}},
    {"--loss-feature", {"eagle", "medusa"}},
};

Choices<std::string> trained_kinds() {
  Choices<std::string> kinds;
  for (const HeadKind kind : kTrainedKinds) kinds.emplace_back(name_of(kind), name_of(kind));
  return kinds;
}

class TrainHead : public Command {
 public:
  TrainHead(CLI::App& parent, TrainHeadRunner run)
      : Command(
            parent.add_subcommand("head", "train a draft head on what talon train data recorded")),
        run_(std::move(run)) {
    add_model_flag(*app_, request_.model);
    add_cells_flag(*app_, request_.model);
    HeadTrainOptions& train = request_.train;
    add_choice<std::string>(*app_, "--kind", train.kind, trained_kinds(),
                            "EAGLE-1 and -2, EAGLE-3, Medusa, DFlash, P-EAGLE, a draft model");
    app_->add_option("--data", train.data, "folders of talon train data")
        ->type_name("FOLDER...")
        ->required();
    add_out_flag(*app_, train.out,
                 "folder for head/, checkpoint and curves; a run in it is gone on with");
    add_schedule_flags(*app_, train, {"tokens of one step, per process", "evaluations"});
    add_size_options();
    add_schedule_options();
    add_loss_options();
    add_measure_options();
    add_work_options();
  }

  int run() override {
    require_kinds(*app_, kOptionsOfHeads, request_.train.kind);
    check_loss();
    check_device();
    HeadTrainOptions& train = request_.train;
    train.precision = precision_on(train.device, train.precision);
    return run_(request_);
  }

 private:
  void check_loss() const {
    const HeadTrainOptions& train = request_.train;
    const double feature = train.feature >= 0 ? train.feature : train.kind == "eagle" ? 1 : 0;
    for (const double weight : {train.soft, train.top, train.hard, train.acceptance,
                                train.variation, train.coupled, feature}) {
      if (weight > 0) return;
    }
    throw UsageError("--loss-soft: expected a weight above 0 for it or another --loss, found none");
  }

  void check_device() const {
    const std::string& device = request_.train.device;
    const bool is_numbered = device.starts_with("cuda:") && device.size() > 5 &&
                             device.find_first_not_of("0123456789", 5) == std::string::npos;
    if (device == "cpu" || device == "cuda" || is_numbered) return;
    throw UsageError(
        fmt::format("--device: expected cpu, cuda or cuda:NUMBER, got \"{}\"", device));
  }

  void add_size_options() {
    const char* group = "Size";
    HeadTrainOptions& train = request_.train;
    add_int(*app_, "--intermediate", train.intermediate, 0, kMany,
            "neurons of the layer's MLP, the strongest of the target's; 0 for all of them")
        ->group(group);
    add_int(*app_, "--medusa-layers", train.medusa_layers, 1, 16,
            "residual blocks of each Medusa head")
        ->group(group);
    add_int(*app_, "--layers", train.layers, 1, 64,
            "of dflash and peagle heads and of draft models")
        ->group(group);
    add_int(*app_, "--anchors", train.anchors, 1, 4096,
            "blocks of each answer that dflash and peagle heads learn in a step")
        ->group(group);
    add_choice<std::string>(*app_, "--weights", train.weights, {{"full", "full"}, {"int4", "int4"}},
                            "int4: learns in the rounding of weights=int4, its output rows, too")
        ->group(group);
    add_int(*app_, "--draft-vocab", train.draft_vocabulary, 0, kMany,
            "most frequent tokens that the exported head drafts, 0 for all; draft models have all")
        ->group(group);
  }

  void add_schedule_options() {
    const char* group = "Schedule";
    HeadTrainOptions& train = request_.train;
    add_real(*app_, "--epochs", train.epochs, 0.001, 1e6,
             "passes over the data; a run that is gone on with ends by the new number")
        ->group(group);
    add_real(*app_, "--minutes", train.minutes, 0, 1e6, "of training at most, 0 for no limit")
        ->group(group);
    add_int(*app_, "--steps", train.steps, 1, 16,
            "unrolled steps (training-time test), of Medusa: heads, of dflash and peagle: "
            "places of a pass")
        ->group(group);
    add_choice<std::string>(*app_, "--decline", train.decline,
                            {{"linear", "linear"}, {"cosine", "cosine"}}, "of the learning rate")
        ->group(group);
    add_int(*app_, "--warmup", train.warmup, 0, kMany, "iterations to the highest rate")
        ->group(group);
    add_real(*app_, "--clip", train.clip, 0, 1e6, "largest norm of the gradient, 0 for no limit")
        ->group(group);
    add_real(*app_, "--average", train.average, 0, 1, "decay of the average of the weights")
        ->group(group);
    app_->add_option(
            "--start", train.start,
            "checkpoint of another run, or head of any layout, to start from, with all steps from "
            "the beginning; without it heads start from the target's last layer, draft models from "
            "its first ones and the last")
        ->type_name("PATH")
        ->group(group);
  }

  void add_loss_options() {
    const char* group = "Loss";
    HeadTrainOptions& train = request_.train;
    add_real(*app_, "--loss-soft", train.soft, 0, 100, "weight of soft cross-entropy")
        ->group(group);
    add_real(*app_, "--loss-top", train.top, 0, 100, "of the same over the ten likeliest tokens")
        ->group(group);
    add_real(*app_, "--loss-hard", train.hard, 0, 100, "of the same with the likeliest token")
        ->group(group);
    add_real(*app_, "--loss-acceptance", train.acceptance, 0, 100,
             "of minus the log of the likelihood of acceptance")
        ->group(group);
    add_real(*app_, "--loss-variation", train.variation, 0, 100,
             "of the total variation of the two laws")
        ->group(group);
    add_real(*app_, "--loss-coupled", train.coupled, 0, 100,
             "of minus the log of the chance that a coupled draft gives to the token drawn")
        ->group(group);
    add_real(*app_, "--loss-feature", train.feature, -1, 100,
             "of smooth-L1 to the target's feature, -1 for 1 in EAGLE-1 heads, else 0")
        ->group(group);
    add_real(*app_, "--noise", train.noise, 0, 10, "on EAGLE-1's features, relative to their size")
        ->group(group);
    add_int(*app_, "--loss-tokens", train.loss_tokens, 1, kMany,
            "frequent tokens in the loss, beside those of the batch")
        ->group(group);
    add_int(*app_, "--max-tokens", train.max_tokens, 4, 1 << 20, "of a conversation")->group(group);
  }

  void add_measure_options() {
    const char* group = "Measurement";
    CLI::Option* questions = add_question_flags(
        *app_, request_.questions,
        {.group = group,
         .help = "Spec-Bench questions, or prompts of pictures, on which heads are measured"});
    HeadTrainOptions& train = request_.train;
    const char* temperatures = "--temperatures";
    app_->add_option_function<std::string>(
            temperatures,
            [=, this](const std::string& text) {
              request_.temperatures.clear();
              for (const std::string& word : split_list(temperatures, text))
                request_.temperatures.push_back(parse_real(temperatures, word, 0, 10));
            },
            "at which heads are measured, the first of which decides which is best")
        ->type_name("T,T,...")
        ->default_str("0; pictures: 1")
        ->needs(questions)
        ->group(group);
    add_real(*app_, "--guidance", request_.guidance, 1, 100, "of pictures that it is measured on")
        ->needs(questions)
        ->group(group);
    add_int(*app_, "--evaluate-every", train.evaluate_every, 0, kMany,
            "iterations, 0 for at the end only")
        ->needs(questions)
        ->group(group);
    add_int(*app_, "--log-every", train.log_every, 1, kMany, "iterations")->group(group);
  }

  void add_work_options() {
    const char* group = "Work";
    HeadTrainOptions& train = request_.train;
    add_int(*app_, "--checkpoint-every", train.checkpoint_every, 0, kMany, "iterations")
        ->group(group);
    app_->add_option("--device", train.device, "cpu, or cuda with a CUDA build of libtorch")
        ->capture_default_str()
        ->group(group);
    train.precision = "auto";
    add_precision_flag(*app_, train.precision);
    add_int(*app_, "--rank", train.rank, 0, 1023, "of this process")->group(group);
    add_int(*app_, "--ranks", train.ranks, 1, 1024, "processes that train together")->group(group);
    app_->add_option("--meet", train.meet, "file through which the processes find each other")
        ->type_name("FILE")
        ->group(group);
  }

  TrainHeadRunner run_;
  TrainHeadRequest request_;
};

/// The arguments of this process, as the system keeps them.
std::vector<std::string> own_arguments() {
  std::ifstream input("/proc/self/cmdline", std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(input)), {});
  std::vector<std::string> arguments;
  for (std::size_t begin = 0; begin < all.size(); begin = all.find('\0', begin) + 1)
    arguments.emplace_back(all.c_str() + begin);
  return arguments;
}

}  // namespace

std::unique_ptr<Command> make_train_head(CLI::App& parent, TrainHeadRunner run) {
  return std::make_unique<TrainHead>(parent, std::move(run));
}

std::filesystem::path trainer_program() {
  auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "talon-train";
  if (!std::filesystem::exists(program)) {
    fail(
        "train: expected the program {}, found none: `make trainer` builds it (and installs "
        "libtorch, about 260 MB)",
        program.string());
  }
  return program;
}

int start_trainer_program() {
  const std::filesystem::path program = trainer_program();
  std::vector<std::string> arguments = own_arguments();
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  execv(program.c_str(), pointers.data());
  fail("train: cannot start {}: {}", program.string(), std::strerror(errno));
}

}  // namespace talon
