<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Symfony;

use RedisLease\Bridge\HeldByRequest;
use Symfony\Component\HttpFoundation\RequestStack;
use Symfony\Component\HttpKernel\Event\KernelEvent;
use Symfony\Component\HttpKernel\Event\RequestEvent;
use Symfony\Component\HttpKernel\Event\TerminateEvent;

/**
 * Tells HeldByRequest of the kernel's requests, and of the messages of a worker of Messenger.
 *
 * @internal
 */
final class RequestListener
{
    public function __construct(private readonly HeldByRequest $held, private readonly ?RequestStack $requests = null)
    {
    }

    public function begin(RequestEvent $event): void
    {
        if ($event->isMainRequest()) {
            $this->held->begin($this->whose($event));
        }
    }

    public function end(TerminateEvent $event): void
    {
        $this->held->end($this->whose($event));
    }

    /** @param object $event Messenger's WorkerMessageReceivedEvent */
    public function beginMessage(object $event): void
    {
        $this->held->begin($event->getEnvelope()->getMessage());
    }

    /** @param object $event Messenger's WorkerMessageHandledEvent or WorkerMessageFailedEvent */
    public function endMessage(object $event): void
    {
        $this->held->end($event->getEnvelope()->getMessage());
    }

    /** The kernel's next one is known for it, also where the last was never terminated; not so one inside of another. */
    private function whose(KernelEvent $event): object
    {
        $outer = $this->requests?->getMainRequest();

        return $outer === null || $outer === $event->getRequest() ? $event->getKernel() : $event->getRequest();
    }
}
