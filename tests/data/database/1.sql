BEGIN TRANSACTION;
CREATE TABLE devices (
	run_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	host TEXT NOT NULL, 
	gpu INTEGER NOT NULL, 
	rank INTEGER NOT NULL, 
	useful_ns BIGINT NOT NULL, 
	busy_ns BIGINT NOT NULL, 
	PRIMARY KEY (run_id, number), 
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
INSERT INTO "devices" VALUES(1,0,'host',0,0,539820,539820);
CREATE TABLE figures (
	run_id INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	what TEXT NOT NULL, 
	name TEXT NOT NULL, 
	value DOUBLE, 
	PRIMARY KEY (run_id, position), 
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
INSERT INTO "figures" VALUES(1,0,'window','duration_ns',539820.0);
INSERT INTO "figures" VALUES(1,1,'run','ranks',1.0);
INSERT INTO "figures" VALUES(1,2,'devices','count',1.0);
INSERT INTO "figures" VALUES(1,3,'efficiency','parallel',1.0);
INSERT INTO "figures" VALUES(1,4,'efficiency','load_balance',1.0);
INSERT INTO "figures" VALUES(1,5,'efficiency','communication',1.0);
INSERT INTO "figures" VALUES(1,6,'efficiency','orchestration',1.0);
INSERT INTO "figures" VALUES(1,7,'devices','useful_ns',539820.0);
INSERT INTO "figures" VALUES(1,8,'devices','busy_ns',539820.0);
INSERT INTO "figures" VALUES(1,9,'iteration, mean','total_ns',100000.0);
INSERT INTO "figures" VALUES(1,10,'iteration, mean','own_ns',100000.0);
INSERT INTO "figures" VALUES(1,11,'iteration, mean','exposed_ns',0.0);
INSERT INTO "figures" VALUES(1,12,'iteration, mean','idle_ns',0.0);
INSERT INTO "figures" VALUES(1,13,'class, total_ns','other',539820.0);
INSERT INTO "figures" VALUES(1,14,'kernel, total_ns','sgemm',539820.0);
CREATE TABLE findings (
	run_id INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	id TEXT NOT NULL, 
	severity TEXT NOT NULL, 
	title TEXT NOT NULL, 
	cost_ns BIGINT NOT NULL, 
	share DOUBLE NOT NULL, 
	ranks JSON NOT NULL, 
	iterations JSON NOT NULL, 
	evidence JSON NOT NULL, 
	confidence TEXT NOT NULL, 
	advice TEXT NOT NULL, 
	command TEXT NOT NULL, 
	cfg TEXT NOT NULL, 
	at_ns BIGINT, 
	PRIMARY KEY (run_id, position), 
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
INSERT INTO "findings" VALUES(1,0,'host-bound','high','Host-bound: the device has no work while the host is busy between launches, 0.91 ms an iteration',909580,1.07258208746956174017e+00,'[]','[1, 2, 3, 4, 5, 6]','{"starved_ns": 909580, "hosts_wait_ns": 0, "gain_without_launch_cost_ns": 8, "kernels_on_a_device": 1, "kernel_p50_ns": 89970, "call_p50_ns": 10.0, "gap_ns_a_kernel": 909580}','high','See what the host does between launches: record CPU samples or Python stacks (nsys profile --sample=process-tree --python-sampling=true); move that work off the launching thread or out of the loop.','nsys2prv analyze RUN --show launches,queues,idle','views/kernels_in_flight',2089100);
INSERT INTO "findings" VALUES(1,1,'missing-data','low','Not recorded: GPU metrics (tensor activity by class)',0,0.0,'[]','[]','{"missing": {"GPU metrics (tensor activity by class)": "--gpu-metrics-devices=all", "OS calls (what the host did while a device was idle)": "--trace=osrt"}}','high','Record with nsys profile --gpu-metrics-devices=all.','nsys profile --gpu-metrics-devices=all ...','',NULL);
CREATE TABLE iterations (
	run_id INTEGER NOT NULL, 
	repeat INTEGER NOT NULL, 
	iteration BIGINT NOT NULL, 
	rank INTEGER NOT NULL, 
	steady BOOLEAN, 
	start_ns BIGINT, 
	total_ns BIGINT, 
	own_ns BIGINT, 
	device_ns BIGINT, 
	compute_ns BIGINT, 
	communication_ns BIGINT, 
	exposed_ns BIGINT, 
	idle_ns BIGINT, 
	mpi_ns BIGINT, 
	to_first_collective_ns BIGINT, 
	forward_backward_ns BIGINT, 
	backward_ns BIGINT, 
	forward_ns BIGINT, 
	optimizer_ns BIGINT, 
	load_ns BIGINT, 
	PRIMARY KEY (run_id, repeat, iteration, rank), 
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
INSERT INTO "iterations" VALUES(1,0,1,0,1,0,100000,100000,89970,89970,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "iterations" VALUES(1,0,2,0,1,100000,101000,101000,90870,90870,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "iterations" VALUES(1,0,3,0,1,201000,99000,99000,89070,89070,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "iterations" VALUES(1,0,4,0,1,300000,100000,100000,89970,89970,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "iterations" VALUES(1,0,5,0,1,400000,102000,102000,91770,91770,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "iterations" VALUES(1,0,6,0,1,502000,98000,98000,88170,88170,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE kernel_classes (
	run_id INTEGER NOT NULL, 
	rank INTEGER NOT NULL, 
	class TEXT NOT NULL, 
	family TEXT NOT NULL, 
	instances BIGINT NOT NULL, 
	total_ns BIGINT NOT NULL, 
	PRIMARY KEY (run_id, rank, class), 
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
INSERT INTO "kernel_classes" VALUES(1,0,'other','other',6,539820);
CREATE TABLE nsys2prv_schema (
	version INTEGER NOT NULL
);
INSERT INTO "nsys2prv_schema" VALUES(1);
CREATE TABLE runs (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	name TEXT NOT NULL, 
	program TEXT NOT NULL, 
	began DATETIME, 
	recorded DATETIME NOT NULL, 
	version TEXT NOT NULL, 
	nsys JSON NOT NULL, 
	gpu_models JSON NOT NULL, 
	reports JSON NOT NULL, 
	reports_hash TEXT NOT NULL, 
	trace TEXT, 
	options JSON NOT NULL, 
	ranks INTEGER NOT NULL, 
	gpus INTEGER NOT NULL, 
	nccl TEXT NOT NULL, 
	window TEXT NOT NULL, 
	window_ns BIGINT NOT NULL, 
	iteration_pattern TEXT, 
	iterations INTEGER NOT NULL, 
	iteration_ns DOUBLE, 
	parallel DOUBLE NOT NULL, 
	load_balance DOUBLE NOT NULL, 
	communication DOUBLE NOT NULL, 
	orchestration DOUBLE NOT NULL
);
INSERT INTO "runs" VALUES(1,'old','app','2024-05-01 00:00:00.000000','2026-11-25 18:12:25.278597','0.1.0','[]','[]','["/runs/before.sqlite"]','9bbea3ef10b8b0497b430c2729d762c6142e081a42aef826f7726f559aba67fd',NULL,'[]',1,1,'communication','steady',539820,'step #',6,250000.0,1.0,1.0,1.0,1.0);
CREATE TABLE tasks (
	run_id INTEGER NOT NULL, 
	rank INTEGER NOT NULL, 
	program TEXT NOT NULL, 
	name TEXT NOT NULL, 
	host TEXT NOT NULL, 
	PRIMARY KEY (run_id, rank), 
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
INSERT INTO "tasks" VALUES(1,0,'app','app:100','host');
CREATE INDEX runs_by_program ON runs (program, began);
CREATE UNIQUE INDEX runs_once ON runs (name, reports_hash);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('runs',1);
COMMIT;
