#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace talon {

/// What `talon train policy` was asked for, beside the texts it learns from.
struct PolicyTrainOptions {
  std::string kind = "ada_eagle";  // ada_eagle, radar
  std::string drafter;
  std::string out;

  /// At which the texts are drawn, in turn; 0: greedily. Their drafts know the noise.
  std::vector<double> temperatures = {0};

  int most = 8;    // levels of a draft
  int topk = 0;    // nodes expanded per level; 0: 1 for ada_eagle (chains), 10 for radar
  int nodes = 59;  // draft nodes of a check, root excluded

  std::string loss = "ordinal";  // of ada_eagle: ordinal, asymmetric
  double lambda = 2;             // asymmetric: weight of a prediction that is too short

  std::string reward = "throughput";  // of radar: throughput, ratio
  double alpha = 0.02;                // ratio: price of going on
  double gamma = 0.99;                // ratio: discount of each decision
  double pass_cost = 0;  // of a draft pass in checks of one row; 0: measured on this machine

  int width = 0;  // of the layers; 0: 256 for ada_eagle, 128 for radar, as its paper
  int epochs = 100;
  int patience = 10;  // epochs without a better one before it stops; 0: never
  int batch = 128;    // positions (rounds) of one optimiser step
  double rate = 2e-4;
  double weight_decay = 0.01;
  double dropout = 0.1;    // radar
  double held_out = 0.2;   // share of the texts that are measured on and not learned from
  std::uint64_t seed = 1;  // of the texts that are drawn and of the training
  int threads = 1;

  bool is_radar() const { return kind == "radar"; }
  int width_used() const { return width > 0 ? width : is_radar() ? 128 : 256; }
  int topk_used() const { return topk > 0 ? topk : is_radar() ? 10 : 1; }
};

}  // namespace talon
